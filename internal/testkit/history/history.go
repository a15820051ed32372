// Package history records the calls and results of concurrent callers, and checks that they are
// linearizable: that there is one order of the calls which explains all results, and in which no
// call comes before one that had ended when it began. It is for tests.
//
// A call with a lost reply may take effect at any time after it began, or never. It is recorded as
// a call that never ends, and its step has to accept any result.
//
// # Limits
//
// The check takes exponential time in the number of concurrent calls: keep the history of one
// object to some dozens of calls, few of them with a lost reply.
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

// Never is the end of a call with a lost reply.
const Never = math.MaxInt64

// patience is how long one check may take before the history counts as undecided.
const patience = time.Minute

// A Model is the specification of an object. Make it with [Of].
type Model struct{ porcupine.Model }

// Of returns the model of an object with an initial state. step returns the state after a call with
// this result, and whether the result was correct.
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

// An Object is the target of calls; each object has its own history.
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

// Now returns a time that is later than all results of earlier calls of Now.
func (l *Log) Now() int64 { return l.clock.Add(1) }

// Add records a call that began and ended at times returned by Now, or that ended [Never].
func (l *Log) Add(o Object, client int, in, out any, began, ended int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.objects == nil {
		l.objects = map[Object][]porcupine.Operation{}
	}
	l.objects[o] = append(l.objects[o], porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: ended})
}

// Figures count the checked histories.
type Figures struct {
	Histories  int // of one object each
	Operations int
	Lost       int // operations without a result
	Violations int
	Undecided  int // histories whose check took longer than a minute
}

func (f Figures) String() string {
	return fmt.Sprintf("%d histories, %d operations, %d answers lost, %d violations, %d undecided", f.Histories, f.Operations, f.Lost, f.Violations, f.Undecided)
}

// Plus returns the sum of two figures.
func (f Figures) Plus(g Figures) Figures {
	return Figures{f.Histories + g.Histories, f.Operations + g.Operations, f.Lost + g.Lost, f.Violations + g.Violations, f.Undecided + g.Undecided}
}

// Check checks the histories of all objects. A violation fails the test and names a page that draws
// it.
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

// Play runs rounds, several concurrently, until together they have made a number of operations, and
// checks each. A round returns its log.
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
	for lane := range max(1, abreast) {
		lanes.Go(func() {
			for n := 0; add(Figures{}) < operations && !t.Failed(); n++ {
				add(round(lane, n).Check(t))
			}
		})
	}
	lanes.Wait()
	t.Log(all)
}

// draw writes a page that shows the history and how far it can be explained. The test does not
// remove it, because people look at it later.
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

// plain keeps the characters that are allowed in a file name.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
