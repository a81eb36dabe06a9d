package wait

// list is a doubly linked list of waits in the order of their start, threaded through the waits themselves so that entering and leaving
// costs no allocation and no search.
type list struct{ first, last *Wait }

// links are a wait's neighbours in one list.
type links struct{ prev, next *Wait }

func (w *Wait) order() *links { return &w.inOrder }
func (w *Wait) count() *links { return &w.inCount }

// insert keeps the list ordered. Two goroutines may read their clocks in one order and enter in the other, so a wait may have to step
// before a few others; it never walks far.
func (l *list) insert(w *Wait, of func(*Wait) *links) {
	after := l.last
	for after != nil && after.Since.After(w.Since) {
		after = of(after).prev
	}
	own := of(w)
	own.prev = after
	if after == nil {
		own.next, l.first = l.first, w
	} else {
		own.next, of(after).next = of(after).next, w
	}
	if own.next == nil {
		l.last = w
	} else {
		of(own.next).prev = w
	}
}

func (l *list) remove(w *Wait, of func(*Wait) *links) {
	own := of(w)
	if own.prev == nil {
		l.first = own.next
	} else {
		of(own.prev).next = own.next
	}
	if own.next == nil {
		l.last = own.prev
	} else {
		of(own.next).prev = own.prev
	}
	*own = links{}
}
