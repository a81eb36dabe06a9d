package authority_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/authority"
)

func samples(t testing.TB) (claims, answers [][]byte) {
	t.Helper()
	c := claimOf(9, "m1", "n1")
	c.Joins, c.Through = new(held(8)), "old"
	h := asked()
	granted, _ := h.Decide(c, authority.Equal)
	refused, _ := h.Decide(claimOf(9, "m2", "n2"), authority.Equal)
	for _, v := range []any{c, granted, refused, h.Report(), authority.Host{Name: "a1"}.Report()} {
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.(authority.Claim); ok {
			claims = append(claims, out)
		} else {
			answers = append(answers, out)
		}
	}
	return claims, answers
}

func TestParse(t *testing.T) {
	claims, answers := samples(t)
	for _, data := range claims {
		c, err := authority.ParseClaim(data)
		if err != nil || c.Mover != "m1" || c.Joins == nil {
			t.Errorf("%s: %+v, %v", data, c, err)
		}
	}
	for _, data := range answers {
		if a, err := authority.ParseAnswer(data); err != nil || a.Host != "a1" {
			t.Errorf("%s: %+v, %v", data, a, err)
		}
	}
	claim, granted, refused := string(claims[0]), string(answers[0]), string(answers[1])
	for _, c := range []struct{ name, data, want string }{
		{"no JSON", "{", "cannot read the claim: unexpected end of JSON input (both hosts must run a build that knows it)"},
		{"too long", strings.Repeat(" ", 1<<15) + claim, "cannot read the claim: it is longer than 32 KiB (both hosts must run a build that knows it)"},
		{"no generation", strings.Replace(claim, `"generation":9`, `"generation":0`, 1), "cannot read the claim: its generation is missing or malformed"},
		{"no mover", strings.Replace(claim, `"m1"`, `""`, 1), "cannot read the claim: its mover is missing or malformed"},
		{"a mover that steers a terminal", strings.Replace(claim, `"m1"`, `"\u001b[2J"`, 1), "cannot read the claim: its mover is missing or malformed"},
		{"a mover longer than a name", strings.Replace(claim, `"m1"`, `"`+strings.Repeat("m", 254)+`"`, 1), "cannot read the claim: its mover is missing or malformed"},
		{"a nonce that is too long", strings.Replace(claim, `"n1"`, `"`+strings.Repeat("n", 65)+`"`, 1), "cannot read the claim: its nonce is missing or malformed"},
		{"a digest of no length", strings.Replace(claim, digest(7), digest(7)[:50], 1), "cannot read the claim: its base is missing or malformed"},
		{"a nonce with a space", strings.Replace(claim, `"n1"`, `"n 1"`, 1), "cannot read the claim: its nonce is missing or malformed"},
		{"no incarnation", strings.Replace(claim, `"i9"`, `""`, 1), "cannot read the claim: its incarnation is missing or malformed"},
		{"no digest", strings.Replace(claim, digest(7), "", 1), "cannot read the claim: its base is missing or malformed"},
		{"a bad join", strings.Replace(claim, digest(8), "x", 1), "cannot read the claim: its joins is missing or malformed"},
		{"a bad authority", strings.Replace(claim, `"through":"old"`, `"through":"/"`, 1), "cannot read the claim: its through is missing or malformed"},
	} {
		if _, err := authority.ParseClaim([]byte(c.data)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, c := range []struct{ name, data, want string }{
		{"no host", strings.Replace(granted, `"a1"`, `""`, 1), "cannot read the answer: its host is missing or malformed"},
		{"granted and refused", strings.Replace(granted, `"granted":true`, `"granted":true,"refused":"holds"`, 1), "cannot read the answer: its granted is missing or malformed"},
		{"granted and promised nothing", strings.Replace(refused, `"granted":false,"refused":"promised"`, `"granted":true`, 1), "cannot read the answer: its granted is missing or malformed"},
		{"a bad reason", strings.Replace(refused, `"refused":"promised"`, `"refused":"no way"`, 1), "cannot read the answer: its refused is missing or malformed"},
		{"a bad commit", strings.Replace(refused, commit(7), "HEAD", 1), "cannot read the answer: its held is missing or malformed"},
		{"a bad nonce", strings.Replace(refused, `"nonce":"n2"`, `"nonce":"\n"`, 1), "cannot read the answer: its nonce is missing or malformed"},
		{"a bad incarnation", strings.Replace(refused, `"incarnation":"i1"`, `"incarnation":"\n"`, 1), "cannot read the answer: its incarnation is missing or malformed"},
		{"a bad promise", strings.Replace(refused, `"mover":"m1"`, `"mover":"M 1"`, 1), "cannot read the answer: its promised is missing or malformed"},
	} {
		if _, err := authority.ParseAnswer([]byte(c.data)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v in %s", c.name, err, c.data)
		}
	}
	long := strings.Replace(refused, "has promised", strings.Repeat(`\u001b`, 9)+"has promised"+strings.Repeat("!", 9000), 1)
	if a, err := authority.ParseAnswer([]byte(long)); err != nil || strings.ContainsRune(a.Sentence, 0x1b) || len(a.Sentence) > 4100 {
		t.Errorf("a hostile sentence: %v, %d bytes", err, len(a.Sentence))
	}
}

func TestParseMove(t *testing.T) {
	s := situation("", "a1")
	begun, err := authority.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	head := authority.Head{Commit: commit(8), Generation: 8, Digest: digest(8), Authority: "new"}
	for _, m := range []authority.Move{
		begun, begun.Promote(head),
		begun.Promote(head).Copied().Stored(authority.StoreResult{Error: "no space"}).Handed("a1", authority.HandOver{Error: "no route"}),
	} {
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := authority.ParseMove(out); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v: %v", m, again, err)
		}
	}
	out, err := json.Marshal(begun)
	if err != nil {
		t.Fatal(err)
	}
	record := string(out)
	for _, c := range []struct{ name, data, what string }{
		{"torn", record[:20], "unexpected end of JSON input"},
		{"promoted what", strings.Replace(record, `"claiming"`, `"promoted"`, 1), "its promoted is missing or malformed"},
		{"a phase of another build", strings.Replace(record, `"claiming"`, `"waiting"`, 1), "its phase is missing or malformed"},
		{"a kind of another build", strings.Replace(record, `"move"`, `"swap"`, 1), "its kind is missing or malformed"},
		{"joins what", strings.Replace(record, `"move"`, `"heal"`, 1), "its joins is missing or malformed"},
		{"no nonce", strings.Replace(record, `"n1"`, `""`, 1), "its nonce is missing or malformed"},
		{"no hosts", strings.Replace(record, `["a1","new","old"]`, `[]`, 1), "its electorate is missing or malformed"},
	} {
		want := "cannot read the record of the move: " + c.what + " (ask the other hosts with stado registry claim what they hold, then remove it)"
		if _, err := authority.ParseMove([]byte(c.data)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzParse: what is read is written and read again as the same, and never ends a decision in a panic.
func FuzzParse(f *testing.F) {
	claims, answers := samples(f)
	for _, data := range append(claims, answers...) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := authority.ParseClaim(data); err == nil {
			out, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			again, err := authority.ParseClaim(out)
			if err != nil || !reflect.DeepEqual(c, again) {
				t.Fatalf("%+v became %+v: %v", c, again, err)
			}
			if a, p := asked().Decide(c, authority.Unknown); a.Granted && p == nil && c.Generation != 9 {
				t.Fatalf("%+v is granted and not promised", c)
			}
		}
		a, err := authority.ParseAnswer(data)
		if err != nil {
			return
		}
		out, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := authority.ParseAnswer(out); err != nil || !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v became %+v: %v", a, again, err)
		}
		m, err := authority.Begin(situation("", "a1"))
		if err != nil {
			t.Fatal(err)
		}
		m.Generation, m.Nonce = max(a.Generation, 8), a.Nonce
		replies := granting(m, "new")
		replies["a1"] = authority.Reply{Answer: &a, Relation: authority.Ahead}
		if next, out := m.Settle(replies); out.Course == authority.Again && next.Generation <= m.Generation {
			t.Fatalf("%+v leads from generation %d to %d", a, m.Generation, next.Generation)
		}
	})
}
