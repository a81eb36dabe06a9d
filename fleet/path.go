package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// FieldPath joins labels and list indexes to a field path such as hosts.a1.service_resolver.adapters.0.bind. A label that holds a dot
// or a quote is quoted, so that a path means one field only.
func FieldPath(labels ...string) string {
	var b strings.Builder
	for _, label := range labels {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if label == "" || strings.ContainsAny(label, ".\"\\") {
			b.WriteString(strconv.Quote(label))
		} else {
			b.WriteString(label)
		}
	}
	return b.String()
}

// SplitFieldPath takes a field path apart, as [FieldPath] writes it.
func SplitFieldPath(path string) ([]string, error) {
	var labels []string
	for rest := path; ; {
		label, end := rest, ""
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("field path %q has an unclosed quote (write hosts.\"a.b\".ssh)", path)
			}
			label, err = strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("field path %q holds a label that cannot be read: %w", path, err)
			}
			if end = rest[len(quoted):]; end != "" && end[0] != '.' {
				return nil, fmt.Errorf("field path %q has %q behind a quoted label (labels are separated by dots)", path, end)
			}
		} else {
			dot := strings.IndexByte(rest, '.')
			if dot >= 0 {
				label, end = rest[:dot], rest[dot:]
			}
			if label == "" {
				return nil, fmt.Errorf("field path %q has an empty label (write labels separated by dots, such as hosts.a1.ssh)", path)
			}
			if strings.ContainsAny(label, "\"\\") {
				return nil, fmt.Errorf("field path %q has a quote inside the label %s (quote the whole label)", path, label)
			}
		}
		labels = append(labels, label)
		if end == "" {
			return labels, nil
		}
		rest = end[1:]
	}
}
