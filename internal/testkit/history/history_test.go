package history_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/internal/testkit/history"
)

// A register holds a number: it is read, or written where the input is not 0. An answer of -1 was
// lost.
func register() *history.Model {
	return history.Of(0, func(s, write, read int) (int, bool) {
		if write != 0 {
			return write, true
		}
		return s, s == read
	})
}

func TestAHistoryIsRightIfOneOrderExplainsIt(t *testing.T) {
	var l history.Log
	o := history.Object{Model: register(), Name: "register"}
	a, b := l.Now(), l.Now()
	c, d := l.Now(), l.Now()
	l.Add(o, 0, 1, 0, a, c)              // written at any time between a and c
	l.Add(o, 1, 0, 1, b, d)              // and read
	l.Add(o, 0, 2, -1, c, history.Never) // never answered, and not applied yet
	l.Add(o, 1, 0, 1, l.Now(), l.Now())  // here
	l.Add(o, 1, 0, 2, l.Now(), l.Now())  // but here
	f := l.Check(t)
	if want := (history.Figures{Histories: 1, Operations: 5, Lost: 1}); f != want {
		t.Errorf("figures %v, want %v", f, want)
	}
}

func TestRoundsArePlayedUntilThereAreEnoughOperations(t *testing.T) {
	var rounds atomic.Int64
	history.Play(t, 3, 20, func(lane, n int) *history.Log {
		rounds.Add(1)
		l := &history.Log{}
		for range 2 {
			l.Add(history.Object{Model: register(), Name: fmt.Sprint(lane, n)}, 0, 0, 0, l.Now(), l.Now())
		}
		return l
	})
	if n := rounds.Load(); n < 10 || n > 12 { // the lanes may be amid their last ones
		t.Errorf("%d rounds of two operations", n)
	}
}
