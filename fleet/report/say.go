package report

import "fmt"

func sayMore(n int) string {
	if n == 1 {
		return "1 more finding is in the log above and in the summary of the step"
	}
	return fmt.Sprintf("%d more findings are in the log above and in the summary of the step", n)
}

func sayCut(n int) string {
	return fmt.Sprintf("- … and %d more, in the log of the step", n)
}
