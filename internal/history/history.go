// Package history records what concurrent callers asked and were told, and checks that it is linearizable: that one order of the calls, in which none is before one that
// had ended when it began, explains all answers. It is for tests.
//
// A call whose answer was lost may take effect at any time after it began, or never: it is recorded as one that never ends, and its step has to allow any answer.
//
// # Limits
//
// The check takes exponential time in the calls that are open at once: keep histories of one object to some dozens of calls, of which few are lost.
package history

import (
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Never is the end of a call whose answer was lost.
const Never = math.MaxInt64

// patience is how long one check may take before the history counts as undecided.
const patience = time.Minute

// A Model says what an object does. Make it with [Of].
type Model struct{ porcupine.Model }

// Of makes the model of an object that begins as start. The step gives the state after a call that was answered so, and whether the answer was right.
func Of[S comparable, I, O any](start S, step func(s S, in I, out O) (S, bool)) *Model {
	seed := maphash.MakeSeed()
	return &Model{porcupine.Model{
		Init: func() any { return start },
		Step: func(state, in, out any) (bool, any) {
			next, right := step(state.(S), in.(I), out.(O))
			return right, next
		},
		Hash:              func(state any) uint64 { return maphash.Comparable(seed, state.(S)) },
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %+v", in, out) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}}
}

// An Object is what calls are made on; each has a history of its own.
type Object struct {
	Model *Model
	Name  string
}

// A Log records calls. The zero value is empty; it may be used concurrently.
type Log struct {
	clock   atomic.Int64
	mu      sync.Mutex
	objects map[Object][]porcupine.Operation
}

// Now is a time that no other call of Now gives, later than those that were given before.
func (l *Log) Now() int64 { return l.clock.Add(1) }

// Add records a call that began and ended at times that Now gave, or that ended [Never].
func (l *Log) Add(o Object, client int, in, out any, began, ended int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.objects == nil {
		l.objects = map[Object][]porcupine.Operation{}
	}
	l.objects[o] = append(l.objects[o], porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// Figures count what was checked.
type Figures struct {
	Histories  int // of one object each
	Operations int
	Lost       int // operations without an answer
	Violations int
	Undecided  int // histories whose check took longer than a minute
}

func (f Figures) String() string {
	return fmt.Sprintf("%d histories, %d operations, %d answers lost, %d violations, %d undecided", f.Histories, f.Operations, f.Lost, f.Violations, f.Undecided)
}

// Plus adds up.
func (f Figures) Plus(g Figures) Figures {
	return Figures{f.Histories + g.Histories, f.Operations + g.Operations, f.Lost + g.Lost, f.Violations + g.Violations, f.Undecided + g.Undecided}
}

// Check checks the histories of all objects. A violation fails the test and names a page that draws it.
func (l *Log) Check(t *testing.T) Figures {
	t.Helper()
	var f Figures
	for o, history := range l.objects {
		f.Histories++
		f.Operations += len(history)
		for _, call := range history {
			if call.Return == Never {
				f.Lost++
			}
		}
		switch porcupine.CheckOperationsTimeout(o.Model.Model, history, patience) {
		case porcupine.Ok:
		case porcupine.Illegal:
			f.Violations++
			t.Errorf("%s: no order explains its history: see %s", o.Name, draw(o, history))
		case porcupine.Unknown:
			f.Undecided++
			t.Errorf("%s: its history of %d calls could not be decided", o.Name, len(history))
		}
	}
	return f
}

// Play plays rounds side by side, so many at a time, until they have made so many operations together, and checks each. A round gives the log of what it did.
func Play(t *testing.T, abreast, operations int, round func(lane, n int) *Log) {
	t.Helper()
	var mu sync.Mutex
	var all Figures
	add := func(f Figures) (operations int) {
		mu.Lock()
		defer mu.Unlock()
		all = all.Plus(f)
		return all.Operations
	}
	var lanes sync.WaitGroup
	began := time.Now() //nolint:forbidigo // how long a test takes
	for lane := range max(1, abreast) {
		lanes.Go(func() {
			for n := 0; add(Figures{}) < operations && !t.Failed(); n++ {
				add(round(lane, n).Check(t))
			}
		})
	}
	lanes.Wait()
	seconds := time.Since(began).Seconds()
	t.Logf("%.1f s, %.0f operations a second: %v", seconds, float64(all.Operations)/seconds, all)
}

// draw writes a page that shows the history and how far it can be explained. It is to be looked at when the test is over, so the test does not remove it.
func draw(o Object, history []porcupine.Operation) string {
	page, err := os.CreateTemp("", "history-"+strings.Map(plain, o.Name)+"-*.html")
	if err != nil {
		return err.Error()
	}
	defer page.Close()
	_, info := porcupine.CheckOperationsVerbose(o.Model.Model, history, patience)
	if err := porcupine.Visualize(o.Model.Model, info, page); err != nil {
		return err.Error()
	}
	return page.Name()
}

// plain keeps what a file's name may have.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
