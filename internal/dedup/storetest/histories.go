package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/history"
)

// The size of one round of histories: the number of concurrent callers, of calls by each, and of
// new groups and tokens.
const (
	callers     = 4
	callsEach   = 50
	historyKeys = 3
	lostOneIn   = 30 // for each kind of fault
	maxFailed   = 20 // percent of the calls that may return an unexpected error
)

// Histories makes at least a number of operations on one store, from several goroutines
// concurrently, and checks that the results for each group and each token are linearizable. A call
// on several records counts as several operations. Some replies are lost, and some contexts end
// before a call or during it. Expired records are written, but the clock stands still.
func Histories(t *testing.T, h Harness, operations int) {
	t.Helper()
	s := newSuite(t, h)
	seed := rand.Uint64()
	var calls, failed atomic.Int64
	history.Play(t, h.Abreast, operations, func(lane, n int) *history.Log {
		r := newRound(s, fmt.Sprintf("round %d.%d", lane, n), rand.New(rand.NewPCG(seed, uint64(lane)<<32|uint64(n))))
		r.run()
		calls.Add(callers * callsEach)
		failed.Add(r.failed.Load())
		return &r.log
	})
	t.Logf("%d calls, of which %d failed by themselves", calls.Load(), failed.Load())
	if failed.Load()*100 > calls.Load()*maxFailed {
		t.Errorf("%d of %d calls failed: nothing is proved by them", failed.Load(), calls.Load())
	}
}

// A round is the history of some groups and tokens.
type round struct {
	*suite
	log      history.Log
	seeds    [callers]uint64
	groups   []*groupObject
	tokens   []*tokenObject
	failed   atomic.Int64 // calls that returned an unexpected error
	repeated int          // how often an unconditional write may be applied
}

func newRound(s *suite, name string, rnd *rand.Rand) *round {
	r := &round{suite: s, repeated: 1}
	if s.harness.RecognisesCommit {
		r.repeated = 2
	}
	groups, tokens := history.Of(groupState{}, stepGroup), history.Of(tokenState{}, stepToken)
	for i := range historyKeys {
		key := record.GroupKey{Stream: name, Group: fmt.Sprint(i)}
		r.groups = append(r.groups, &groupObject{Object: history.Object{Model: groups, Name: "group " + key.String()}, key: key})
		token := record.NewTokenKey("", name, fmt.Sprint(i))
		r.tokens = append(r.tokens, &tokenObject{Object: history.Object{Model: tokens, Name: fmt.Sprintf("token %s %d", name, i)}, key: token})
	}
	for i := range r.seeds {
		r.seeds[i] = rnd.Uint64()
	}
	return r
}

func (r *round) run() {
	var all sync.WaitGroup
	for i := range callers {
		c := &caller{round: r, number: i, rnd: rand.New(rand.NewPCG(r.seeds[i], 0)), groups: make([]record.Group, historyKeys), tokens: make([]record.Token, historyKeys)}
		for k := range historyKeys {
			c.groups[k].Key, c.tokens[k].Key = r.groups[k].key, r.tokens[k].key
		}
		all.Go(func() {
			for range callsEach {
				c.call()
			}
		})
	}
	all.Wait()
}

// A caller makes one call after the other, and remembers the record that it last read of each key.
type caller struct {
	*round
	number int
	rnd    *rand.Rand
	groups []record.Group
	tokens []record.Token
}

// repeats reports whether a client library may retry a conditional write if its reply was lost.
// Then no record may return to an earlier value, in particular to absent: the retry's condition
// would hold again and the write would be applied twice, which no store can detect.
func (c *caller) repeats() bool { return c.repeated > 1 }

func (c *caller) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *caller) call() {
	if c.harness.tokensOnly {
		if c.oneIn(2) {
			c.load()
		} else {
			c.swap()
		}
		return
	}
	switch n := c.rnd.IntN(22); {
	case n < 6:
		c.load()
	case n < 11:
		c.commit()
	case n < 13:
		c.clear()
	case n < 14:
		c.held()
	case n < 16:
		c.readLog()
	case n < 20:
		c.swap()
	default:
		c.mark()
	}
}

// An answer is the result of a call. Its zero value is success.
type answer struct {
	began, ended int64
	lost         bool // it is unknown whether the call was applied
	conflict     bool
}

// make makes a call, perhaps with a fault.
func (c *caller) make(do func(context.Context) error) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fault := c.rnd.IntN(lostOneIn)
	a := answer{began: c.log.Now()}
	switch fault {
	case 0:
		cancel()
	case 1:
		go cancel()
	}
	runtime.Gosched() // lets the other callers run
	err := do(ctx)
	runtime.Gosched()
	a.ended = c.log.Now()
	a.conflict = errors.Is(err, record.ErrConflict)
	if err != nil && !a.conflict && fault > 1 {
		c.failed.Add(1)
	}
	if a.lost = fault == 2 || err != nil && !a.conflict; a.lost {
		a.ended, a.conflict = history.Never, false
	}
	return a
}

// load reads some of the groups and tokens. The contract promises nothing about several of them
// together, so each counts as a call.
func (c *caller) load() {
	groups, tokens := c.some(), c.some()
	if c.harness.tokensOnly {
		groups = nil
	}
	if len(groups)+len(tokens) == 0 {
		return
	}
	var groupKeys []record.GroupKey
	var tokenKeys []record.TokenKey
	for _, i := range groups {
		groupKeys = append(groupKeys, c.round.groups[i].key)
	}
	for _, i := range tokens {
		tokenKeys = append(tokenKeys, c.round.tokens[i].key)
	}
	var gs []record.Group
	var ts []record.Token
	a := c.make(func(ctx context.Context) (err error) {
		gs, ts, err = c.Load(ctx, groupKeys, tokenKeys)
		return err
	})
	if a.lost {
		return
	}
	for n, i := range groups {
		c.groups[i] = gs[n]
		c.log.Add(c.round.groups[i].Object, c.number, groupCall{do: "load"}, groupAnswer{seen: viewOf(&gs[n])}, a.began, a.ended)
	}
	for n, i := range tokens {
		c.tokens[i] = ts[n]
		c.log.Add(c.round.tokens[i].Object, c.number, tokenCall{do: "load"}, tokenAnswer{seen: stateOf(&ts[n])}, a.began, a.ended)
	}
}

// some returns a few of the keys, or all, or none.
func (c *caller) some() []int { return c.rnd.Perm(historyKeys)[:c.rnd.IntN(historyKeys+1)] }
