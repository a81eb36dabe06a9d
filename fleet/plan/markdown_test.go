package plan

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

func TestMarkdown(t *testing.T) {
	p := between(t, func(r *fleet.Registry) {
		r.Directory.Generation = 2
		service(r, "db", func(s *fleet.Service) { s.Endpoints["carme"] = fleet.ServiceEndpoint{URL: "tcp://127.0.0.1:5433"} })
		delete(r.Hosts, "borea")
		r.Hosts["atlas"].Resolver.Adapters[0].Bind = "127.0.0.1:7709"
	})
	p = p.For("atlas")
	want := `<!-- stado plan -->
### stado plan: generation 1 to 2: 0 services, 1 adapter and 1 route on 1 host

#### host ` + "`atlas`" + ` changed

| change | what | before | after |
|---|---|---|---|
| changed | adapter ` + "`shop` for `web` at `127.0.0.1:7709`, bind | `127.0.0.1:7701` | `127.0.0.1:7709`" + ` |
| changed | route ` + "`db` for `shop` at `127.0.0.1:7702`, leads to | `carme tcp://127.0.0.1:5432` | `carme tcp://127.0.0.1:5433`" + ` |
`
	if diff := cmp.Diff(want, p.Markdown()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// codeSpan is what Markdown reads as one: everything between two single backticks.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

// Whatever a document says, outside of code spans there are our own words only, and every row has four cells.
func TestMarkdownIsEscaped(t *testing.T) {
	hostile := []string{
		"@admins", "`@admins`", "``` @admins", "a | b", "\\| b", "\\`", "[x](https://e.example)", "<img src=x onerror=y>", "#1", "\n| x |", "\r\n# head",
		"</td>", "https://e.example", "\u202eabc", "\x00", "\xff", "", " ", "![](x)", "*a*", "<!-- -->", "&lt;",
	}
	ours := regexp.MustCompile(`^[A-Za-z0-9 ,|.()#:!<>-]*$`)
	for _, word := range hostile {
		p := between(t, func(r *fleet.Registry) {
			r.Hosts[fleet.HostName(word)] = fleet.Host{Zone: word, Labels: map[string]string{word: word}, Resolver: &fleet.ServiceResolver{
				APIBind: word, Adapters: []fleet.Adapter{{Service: fleet.ServiceName(word), Consumer: fleet.ConsumerName(word), Bind: word}},
			}}
			r.Directory.Services[fleet.ServiceName(word)] = fleet.Service{
				ActiveHosts: []fleet.HostName{fleet.HostName(word)}, Endpoints: map[fleet.HostName]fleet.ServiceEndpoint{fleet.HostName(word): {URL: word}},
			}
			r.Directory.Authority.Remote = word
		})
		got := p.Markdown()
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if bare := codeSpan.ReplaceAllString(line, ""); !ours.MatchString(bare) {
				t.Errorf("%q: outside of code: %q", word, bare)
			}
			if cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); cells != 0 && cells != 5 {
				t.Errorf("%q: %d bars in %q", word, cells, line)
			}
		}
		if strings.Contains(got, "@admins") && !regexp.MustCompile("`[^`\n]*@admins[^`\n]*`").MatchString(got) {
			t.Errorf("%q mentions people", word)
		}
	}
}

// A plan of any size fits into a comment, and says what it leaves out.
func TestMarkdownFitsIntoAComment(t *testing.T) {
	more := func(hosts int, zone string) Plan {
		return between(t, func(r *fleet.Registry) {
			for i := range hosts {
				r.Hosts[fleet.HostName(fmt.Sprintf("h%04d", i))] = fleet.Host{Zone: zone}
			}
		})
	}
	small := more(20, "z").Markdown()
	if strings.Contains(small, "did not fit") || strings.Count(small, "| added |") != 20 {
		t.Errorf("a small plan is cut:\n%s", small)
	}
	const hosts = 3000
	big := more(hosts, "z").Markdown()
	if len(big) > MaxMarkdown || len(big) < MaxMarkdown-1000 {
		t.Errorf("a big plan has %d bytes", len(big))
	}
	said := strings.Count(big, "| added |")
	if want := fmt.Sprintf("\n%d more lines did not fit into this comment", hosts-said); !strings.Contains(big, want) {
		t.Errorf("%d lines are said, and at the end: %s", said, big[len(big)-120:])
	}
	if !strings.HasSuffix(big, "\n") {
		t.Error("the last line is cut")
	}
	if huge := more(1, strings.Repeat("|", MaxMarkdown)).Markdown(); len(huge) > MaxMarkdown || !strings.Contains(huge, "...`") {
		t.Errorf("a long value is not cut: %d bytes", len(huge))
	}
}
