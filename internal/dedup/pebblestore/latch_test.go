package pebblestore

import "testing"

func TestNoGroupGetsTheHeadOfAnotherUnderTheSameLatch(t *testing.T) {
	var l latch
	l.remember([]byte("a"), head{version: 1})
	if h, known := l.recall([]byte("a")); !known || h.version != 1 {
		t.Errorf("its own: %+v, %v", h, known)
	}
	if h, known := l.recall([]byte("b")); known {
		t.Errorf("another one's: %+v", h)
	}
	l.forget()
	if h, known := l.recall([]byte("a")); known {
		t.Errorf("what is forgotten: %+v", h)
	}
}
