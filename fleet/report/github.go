package report

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stado.internal/stado/fleet"
)

// maxAnnotations is how many annotations of one kind GitHub shows of one step. With one notice that makes 21 of the 50 that it shows of
// one job, so two registries can be judged in a job.
const maxAnnotations = 10

// SummaryLimit is how many bytes GitHub takes as the summary of one step.
const SummaryLimit = 1 << 20

// GitHub writes findings as workflow commands: the most important as annotations, as many as GitHub shows, the others as lines of the
// log, and a notice that counts them.
func (r Report) GitHub(w io.Writer) error {
	var b strings.Builder
	shown := map[fleet.Severity]int{}
	var rest fleet.Findings
	for _, f := range r.ranked() {
		if shown[f.Severity] == maxAnnotations {
			rest = append(rest, f)
			continue
		}
		shown[f.Severity]++
		b.WriteString(r.annotation(f) + "\n")
	}
	for _, f := range rest {
		b.WriteString(logLine(f) + "\n")
	}
	if len(rest) > 0 {
		b.WriteString("::notice title=stado vet::" + escapeData(sayMore(len(rest))) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// annotation is a workflow command. A finding without a file belongs to the step.
func (r Report) annotation(f fleet.Finding) string {
	command := "error"
	if f.Severity == fleet.SeverityWarning {
		command = "warning"
	}
	var properties []string
	add := func(name, value string) { properties = append(properties, name+"="+escapeProperty(value)) }
	if f.File != "" {
		file, _ := r.where(f)
		add("file", file)
		if f.Line > 0 {
			add("line", strconv.Itoa(f.Line))
			if f.Column > 0 {
				add("col", strconv.Itoa(f.Column))
			}
		}
	}
	rule := r.rule(f.Rule)
	add("title", strings.TrimSpace(rule.ID+" "+rule.Title))
	return "::" + command + " " + strings.Join(properties, ",") + "::" + escapeData(sentence(f))
}

// logLine is a finding that a runner must not take for a command: the newer form stands at the start of a line, the older one anywhere.
func logLine(f fleet.Finding) string {
	return "also " + string(f.Severity) + ": " + strings.ReplaceAll(oneLine(f.String()), "##[", "## [")
}

func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// Summary is the verdict and all findings in Markdown, in at most limit bytes; what does not fit is counted.
func (r Report) Summary(limit int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### stado vet\n\n%s\n\n", code(r.Verdict))
	if b.Len() > limit {
		return nil
	}
	ranked := r.ranked()
	for i, f := range ranked {
		item := summaryItem(f)
		left := len(ranked) - i
		if reserve := len(sayCut(left)) + 1; i < len(ranked)-1 && b.Len()+len(item)+reserve > limit || b.Len()+len(item) > limit {
			if b.Len()+reserve <= limit {
				b.WriteString(sayCut(left) + "\n")
			}
			break
		}
		b.WriteString(item)
	}
	return b.Bytes()
}

// summaryItem is a finding as an item of a list. A table would have to escape the bar too, which no two renderers do alike in code.
func summaryItem(f fleet.Finding) string {
	item := "- **" + string(f.Severity) + "** " + code(f.Rule)
	if p := f.Position(); p != "" {
		item += " at " + code(p)
	}
	return item + ": " + code(sentence(f)) + "\n"
}

// code is text as a code span, in which Markdown has no links, mentions, images or HTML. The span is closed by more backticks than the
// text has in a row.
func code(s string) string {
	s = strings.TrimSpace(oneLine(s))
	if s == "" {
		return ""
	}
	run, longest := 0, 0
	for _, r := range s {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}
