package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// chunkFiles is how many literal leaves share one evaluation: enough to spread the cost of the schema and the shared files, few enough
	// to keep a context small. Twice as many, or half, take about as long; a hundred take more time and twice the memory.
	chunkFiles = 20
	// maxShared is how many shared files are worth evaluating again with every chunk.
	maxShared = 64
	// maxStepwise is how many shared files with expressions are begun one by one, so that the one that does not end can be named.
	maxStepwise = 16
)

// plan is the order of the work.
type plan struct {
	shared  []source // literal ones first
	entries []entry
	whole   bool
}

func (c *compiler) plan(sources []source) plan {
	p := plan{whole: c.whole}
	groups := map[entryKey]*entry{}
	var order []entryKey
	for _, s := range sources {
		if !s.leaf.ok() {
			p.shared = append(p.shared, s)
			p.whole = p.whole || s.needsWhole
			continue
		}
		k := entryKey{s.leaf.kind, s.leaf.name}
		if groups[k] == nil {
			groups[k] = &entry{kind: k.kind, name: k.name}
			order = append(order, k)
		}
		groups[k].sources = append(groups[k].sources, s)
	}
	p.whole = p.whole || len(p.shared) > maxShared
	literalFirst(p.shared)
	slices.SortFunc(order, func(a, b entryKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	for _, k := range order {
		p.entries = append(p.entries, *groups[k])
		c.where.pending[k] = groups[k].sources
	}
	return p
}

// literalFirst puts what can be a bomb last, so that it is the last that had begun.
func literalFirst(sources []source) {
	slices.SortStableFunc(sources, func(a, b source) int {
		switch {
		case a.literal == b.literal:
			return 0
		case a.literal:
			return -1
		}
		return 1
	})
}

// chunks groups the literal entries, and lists the others, each of which is evaluated alone.
func (p plan) chunks() (literal [][]entry, alone []entry) {
	var chunk []entry
	files := 0
	for _, e := range p.entries {
		if slices.ContainsFunc(e.sources, func(s source) bool { return !s.literal }) {
			alone = append(alone, e)
			continue
		}
		chunk = append(chunk, e)
		if files += len(e.sources); files >= chunkFiles {
			literal, chunk, files = append(literal, chunk), nil, 0
		}
	}
	if len(chunk) > 0 {
		literal = append(literal, chunk)
	}
	return literal, alone
}

// result is a compiled registry in parts: the shared value, and what replaces the entries in it.
type result struct {
	registry []byte
	entries  map[entryKey][]byte
}

// run evaluates the shared files alone, then every leaf with them, as far as they are not known. The outcome is that of one evaluation of
// everything.
func (c *compiler) run(p plan) result {
	m := newMemo(c.cache, c.entriesApart(), p.shared)
	shared := c.runShared(m)
	for _, e := range p.entries {
		// An entry that shared files give parts of may be incomplete without its leaf.
		p.whole = p.whole || shared.names[entryKey{e.kind, e.name}]
	}
	if p.whole {
		return c.runWhole(p, m)
	}
	if shared.err != nil {
		c.findings.add(c.explain(shared.err)...)
		return result{}
	}
	c.apart = c.separate(p, shared)
	out := result{registry: shared.registry, entries: map[entryKey][]byte{}}
	p.entries = c.withoutKnown(p, m, out)
	c.counts.Evaluated += len(p.entries)
	literal, alone := p.chunks()
	if c.err != nil {
		return result{}
	}
	for i, got := range c.evaluateAll(p.shared, literal) {
		c.take(p.shared, literal[i], got, m, out)
	}
	evaluate := c.evaluate
	for i, e := range alone {
		if i%chunkFiles == 0 {
			evaluate = c.session()
		}
		chunk := []entry{e}
		c.take(p.shared, chunk, c.evaluateEntries(p.shared, chunk, evaluate), m, out)
	}
	return out
}

// withoutKnown keeps what is known of entries without evaluating them, and returns the others, with their bytes.
func (c *compiler) withoutKnown(p plan, m memo, out result) []entry {
	c.counts.Units += len(p.entries)
	apart := !slices.ContainsFunc(p.shared, func(s source) bool { return !s.apart })
	var rest []entry
	for _, e := range p.entries {
		k := entryKey{e.kind, e.name}
		if first := e.sources[0]; apart && len(e.sources) == 1 && first.fragment != nil {
			out.entries[k] = first.fragment
			if first.known {
				c.counts.Cached++
			} else {
				c.counts.Literal++
			}
			continue
		}
		if raw, ok := m.get(m.ofEntry(e)); ok {
			out.entries[k] = raw
			c.counts.Cached++
			continue
		}
		c.load(e.sources)
		rest = append(rest, e)
	}
	return rest
}

// evaluateAll evaluates chunks of literal leaves on all processors and returns what they evaluate to, in their order.
func (c *compiler) evaluateAll(shared []source, chunks [][]entry) []fragments {
	out := make([]fragments, len(chunks))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chunks)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(chunks)); i = next.Add(1) - 1 {
				out[i] = c.evaluateEntries(shared, chunks[i], c.evaluate)
			}
		})
	}
	workers.Wait()
	return out
}

func (c *compiler) evaluateEntries(shared []source, chunk []entry, evaluate func(unit) fragments) fragments {
	u := unit{sources: slices.Clone(shared), entries: chunk}
	for _, e := range chunk {
		for _, s := range e.sources {
			c.begin(phaseEvaluate, s.path)
			u.sources = append(u.sources, s)
		}
	}
	return evaluate(u)
}

// take keeps what a chunk evaluated to. A chunk with an error is evaluated again entry by entry: an error hides others in its
// evaluation, and every host and service should get its own report.
func (c *compiler) take(shared []source, chunk []entry, got fragments, m memo, out result) {
	switch {
	case got.err == nil:
		for i, e := range chunk {
			out.entries[entryKey{e.kind, e.name}] = got.entries[i]
			k, known := m.ofEntry(e)
			m.put(k, known, got.entries[i])
		}
	case len(chunk) == 1:
		c.findings.add(c.explain(got.err)...)
	default:
		for i := range chunk {
			one := chunk[i : i+1]
			c.take(shared, one, c.evaluateEntries(shared, one, c.evaluate), m, out)
		}
	}
}

// runShared evaluates the shared files. Those with expressions join one by one, so that when the evaluation of one does not end, the
// last that had begun is the one to look at; only the last step, with all of them, counts.
func (c *compiler) runShared(m memo) fragments {
	c.counts.Units++
	if known, ok := m.getShared(); ok {
		c.counts.Cached++
		return known
	}
	c.counts.Evaluated++
	shared, steps := m.shared, 0
	for _, s := range shared {
		if !s.literal {
			steps++
		}
	}
	for i, s := range shared {
		c.begin(phaseEvaluate, s.path)
		if !s.literal && i+1 < len(shared) && steps <= maxStepwise {
			c.evaluate(unit{sources: shared[:i+1]})
		}
	}
	got := c.evaluate(unit{sources: shared})
	if got.err == nil {
		m.putShared(got)
	}
	return got
}

func (c *compiler) runWhole(p plan, m memo) result {
	all := slices.Clone(p.shared)
	for _, e := range p.entries {
		all = append(all, e.sources...)
	}
	c.counts.Units++
	key, known := m.ofWhole(all)
	if raw, ok := m.get(key, known); ok {
		c.counts.Cached++
		return result{registry: raw}
	}
	c.counts.Evaluated++
	if c.load(all); c.err != nil {
		return result{}
	}
	literalFirst(all)
	for _, s := range all {
		c.begin(phaseEvaluate, s.path)
	}
	got := c.evaluate(unit{sources: all})
	if got.err != nil {
		c.findings.add(c.explain(got.err)...)
		return result{}
	}
	m.put(key, known, got.registry)
	return result{registry: got.registry}
}

// render puts the parts together to the canonical document.
func (r result) render() ([]byte, error) {
	tree, err := decodeTree(r.registry)
	if err != nil {
		return nil, err
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the registry is %T, not a struct", tree)
	}
	size := len(r.registry)
	for k, raw := range r.entries {
		holder := root
		if k.kind == servicesLabel {
			holder = child(root, directoryLabel)
		}
		child(holder, k.kind)[k.name] = json.RawMessage(raw)
		size += len(k.name) + len(raw) + 4
	}
	return appendTree(make([]byte, 0, size), root)
}

// appendTree encodes a tree whose json.RawMessages are canonical.
func appendTree(out []byte, v any) ([]byte, error) {
	if x, ok := v.(map[string]any); ok {
		out = append(out, '{')
		for i, label := range slices.Sorted(maps.Keys(x)) {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = appendLabel(out, label); err != nil {
				return nil, err
			}
			out = append(out, ':')
			if raw, ok := x[label].(json.RawMessage); ok {
				out = append(out, raw...)
				continue
			}
			if out, err = appendTree(out, x[label]); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	raw, err := encode(v)
	return append(out, raw...), err
}

// appendLabel encodes a name; an encoder for each of ten thousand plain ones would take longer than everything around it.
func appendLabel(out []byte, label string) ([]byte, error) {
	if !strings.ContainsFunc(label, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return append(append(append(out, '"'), label...), '"'), nil
	}
	name, err := encode(label)
	return append(out, name...), err
}

// child is the object under a key, made if it is not there.
func child(m map[string]any, label string) map[string]any {
	if inner, ok := m[label].(map[string]any); ok {
		return inner
	}
	inner := map[string]any{}
	m[label] = inner
	return inner
}
