package fleet

import "testing"

func TestPortion(t *testing.T) {
	t.Parallel()
	limits := ChangeLimits{MaxRemovedHostsPct: 25, MaxChangedServicesPct: 0, MinSet: 4}
	for _, c := range []struct {
		p       Portion
		exceeds bool
		percent string
	}{
		{limits.Removed(1, 4), false, "25%"},
		{limits.Removed(2, 4), true, "50%"},
		{limits.Removed(3, 3), false, "100%"}, // too small a set
		{limits.Removed(26, 101), true, "25.74%"},
		{limits.Changed(0, 4), false, "0%"},
		{limits.Changed(1, 300), true, "0.33%"},
		{ChangeLimits{}.Removed(0, 0), false, "0%"},
	} {
		if c.p.Exceeds() != c.exceeds || c.p.Percent() != c.percent {
			t.Errorf("%+v: %t, %s", c.p, c.p.Exceeds(), c.p.Percent())
		}
	}
}
