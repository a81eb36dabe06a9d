package edit

import "fmt"

// The sentences of this package.

const (
	sayNotData     = "the file computes a value here (write data only: strings, numbers, lists and structs)"
	sayMoreThanOne = "the file holds more than one value (write one)"
	hintByHand     = "edit it by hand"
)

func sayTwice(name string, first int) string {
	return fmt.Sprintf("field %q is written twice, first in line %d (keep one)", name, first)
}

func sayNesting() string {
	return fmt.Sprintf("the value nests more than %d deep (write it less deeply nested)", maxNesting)
}

func sayNotJSON(err error) string { return "the file is not JSON: " + err.Error() }

func sayComputed(where, path string) string {
	return fmt.Sprintf("%s: %s is computed here, not written as a value, so no program changes it (%s)", where, path, hintByHand)
}

func saySeveral(path string, where []string) string {
	return fmt.Sprintf("%s is set in %d places (%s), so no program chooses one (%s)", path, len(where), join(where), hintByHand)
}

func sayAbsent(name, path string) string {
	return fmt.Sprintf("%s: %s is not written in this file (it comes from a template; %s)", name, path, hintByHand)
}

func sayBroken(name string, err error) string {
	return fmt.Sprintf("%s: the edit would leave text that is not CUE: %v (%s)", name, err, hintByHand)
}

func saySteps(name, path string) string {
	return fmt.Sprintf("%s: the new value of %s differs in more than %d places (%s)", name, path, maxSteps, hintByHand)
}
