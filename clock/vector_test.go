package clock_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/effectively-once/once/clock"
)

// vector returns the vector of a text.
func vector(t testing.TB, text string) clock.Vector {
	t.Helper()
	v, err := clock.ParseVector(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVectorsOfOtherProjectsCompareAndMergeTheSame(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		part := strings.Split(line, "|")
		for i := range part {
			part[i] = strings.TrimSpace(part[i])
		}
		t.Run(part[0], func(t *testing.T) {
			v, w := vector(t, part[1]), vector(t, part[2])
			opposite := map[string]string{"equal": "equal", "before": "after", "concurrent": "concurrent"}
			if there, back := v.Compare(w).String(), w.Compare(v).String(); there != part[3] || back != opposite[part[3]] {
				t.Errorf("%s, and the other way round %s", there, back)
			}
			for _, pair := range [][2]clock.Vector{{v, w}, {w, v}} {
				if merged, err := pair[0].Merge(pair[1]); err != nil || merged.String() != part[4] {
					t.Errorf("merged: %s, %v", merged, err)
				}
			}
		})
	}
}

// TestThreeNodesHaveTheVectorsOfMattern plays messages from c to b, b to a and b to c, by the rules
// of F. Mattern, Virtual Time and Global States of Distributed Systems, 1989, section 5: an event
// adds one to the own number, and a receipt takes the higher numbers first.
func TestThreeNodesHaveTheVectorsOfMattern(t *testing.T) {
	now := map[string]clock.Vector{}
	happen := func(node string, received clock.Vector, want string) clock.Vector {
		t.Helper()
		next, err := now[node].Merge(received)
		if err == nil {
			next, err = next.Tick(node)
		}
		if now[node] = next; err != nil || next.String() != want {
			t.Fatalf("%s is at %s, %v, want %s", node, next, err, want)
		}
		return next
	}
	var none clock.Vector
	first := happen("c", none, "c=1")
	alone := happen("a", none, "a=1")
	second := happen("b", first, "b=1,c=1")
	third := happen("b", none, "b=2,c=1")
	joined := happen("a", third, "a=2,b=2,c=1")
	back := happen("c", second, "b=1,c=2")
	for _, c := range []struct {
		a, b clock.Vector
		want clock.Order
	}{
		{first, second, clock.Before}, {second, joined, clock.Before}, {first, alone, clock.Concurrent}, {third, back, clock.Concurrent}, {joined, back, clock.Concurrent}, {joined, alone, clock.After},
	} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("%s and %s are %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

// TestCompareReportsExactlyWhetherAnEventHappenedBeforeAnother plays random histories and compares
// the vectors with the sets of events that each event knows.
func TestCompareReportsExactlyWhetherAnEventHappenedBeforeAnother(t *testing.T) {
	type event struct {
		clock clock.Vector
		known map[int]bool
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		names := []string{"a", "ab", "b", "ü"}
		now := map[string]event{}
		var all []event
		for i := range 60 {
			me := names[rng.IntN(len(names))]
			next := event{now[me].clock, map[int]bool{i: true}}
			for id := range now[me].known {
				next.known[id] = true
			}
			if len(all) > 0 && rng.IntN(2) == 0 { // it received a message that was sent at any earlier event
				sent := all[rng.IntN(len(all))]
				next.clock, _ = next.clock.Merge(sent.clock)
				for id := range sent.known {
					next.known[id] = true
				}
			}
			next.clock, _ = next.clock.Tick(me)
			now[me] = next
			all = append(all, next)
		}
		for i, a := range all {
			for j, b := range all {
				want := clock.Concurrent
				switch {
				case i == j:
					want = clock.Equal
				case b.known[i]:
					want = clock.Before
				case a.known[j]:
					want = clock.After
				}
				if got := a.clock.Compare(b.clock); got != want {
					t.Fatalf("seed %d: %s and %s are %s, want %s", seed, a.clock, b.clock, got, want)
				}
			}
		}
	}
}

// hundred returns a vector of a hundred members, as a group chat has them.
func hundred(t testing.TB) clock.Vector {
	t.Helper()
	numbers := map[string]uint64{}
	for i := range 100 {
		numbers[fmt.Sprintf("participant-%03d", i)] = uint64(i * i)
	}
	numbers["participant-000"] = 1
	v, err := clock.NewVector(numbers)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAVectorOfAHundredMembersFitsIntoAKilobyte(t *testing.T) {
	data, err := hundred(t).MarshalBinary()
	if err != nil || len(data) > 1024 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestCompareAllocatesNothing(t *testing.T) {
	v := hundred(t)
	w, err := v.Tick("participant-050")
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = v.Compare(w) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAVectorDoesNotChangeWhenItTicks(t *testing.T) {
	v := vector(t, "a=1,c=1")
	for _, member := range []string{"a", "b", "c", "d"} {
		if _, err := v.Tick(member); err != nil {
			t.Fatal(err)
		}
	}
	if v.String() != "a=1,c=1" {
		t.Errorf("it is %s", v)
	}
}

func TestAVectorRefusesWhatItCannotHold(t *testing.T) {
	full := map[string]uint64{}
	for i := range clock.MaxMembers {
		full[fmt.Sprint(i)] = 1
	}
	v, err := clock.NewVector(full)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Tick("another"); err == nil {
		t.Error("a member too many ticks")
	}
	if _, err := v.Merge(vector(t, "another=1")); err == nil {
		t.Error("a member too many is merged")
	}
	full["another"] = 1
	if _, err := clock.NewVector(full); err == nil {
		t.Error("a vector with a member too many")
	}
	for _, name := range []string{"", strings.Repeat("x", clock.MaxName+1)} {
		if _, err := (clock.Vector{}).Tick(name); err == nil {
			t.Errorf("a name of %d bytes ticks", len(name))
		}
		if _, err := clock.NewVector(map[string]uint64{name: 1}); err == nil {
			t.Errorf("a vector with a name of %d bytes", len(name))
		}
	}
	last, err := clock.NewVector(map[string]uint64{"a": math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Tick("a"); !errors.Is(err, clock.ErrOverflow) {
		t.Errorf("the last number ticks: %v", err)
	}
}

func TestAMemberIsPrunedOnlyWhenEveryMemberKnowsAllItsEvents(t *testing.T) {
	left := vector(t, "gone=5")
	mine := vector(t, "a=3,gone=5")
	_, err := mine.Prune(left, mine, vector(t, "b=9,gone=4"))
	if unstable, ok := errors.AsType[*clock.UnstableError](err); !ok || *unstable != (clock.UnstableError{Member: "gone", Last: 5, Known: 4}) {
		t.Errorf("pruned before b knows all: %v", err)
	}
	if _, err := vector(t, "a=3").Prune(left); err == nil {
		t.Error("pruned before the own vector knows all")
	}
	pruned, err := mine.Prune(left, mine, vector(t, "b=9,gone=5"))
	if err != nil || pruned.String() != "a=3" {
		t.Errorf("%s, %v", pruned, err)
	}
	if late := vector(t, "b=7,gone=5").Without(left); late.String() != "b=7" {
		t.Errorf("a vector that arrives later is %s", late)
	}
}

// TestPruningChangesNoComparisonOfLaterEvents lets a member leave, prunes when the condition holds,
// and compares every later pair of events with and without the member.
func TestPruningChangesNoComparisonOfLaterEvents(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		left := vector(t, "gone=4")
		names := []string{"a", "b", "c"}
		now := map[string]clock.Vector{}
		for _, name := range names { // all have learned its events, at different times
			now[name] = vector(t, fmt.Sprintf("%s=%d,gone=4", name, 1+rng.IntN(5)))
		}
		var all []clock.Vector
		for range 40 {
			me := names[rng.IntN(len(names))]
			next := now[me]
			if len(all) > 0 && rng.IntN(2) == 0 {
				next, _ = next.Merge(all[rng.IntN(len(all))])
			}
			next, _ = next.Tick(me)
			now[me] = next
			all = append(all, next)
		}
		for _, v := range all {
			for _, w := range all {
				a, errA := v.Prune(left, now["a"], now["b"], now["c"])
				b, errB := w.Prune(left)
				if errA != nil || errB != nil || a.Compare(b) != v.Compare(w) {
					t.Fatalf("seed %d: %s and %s are %s, pruned %s; %v %v", seed, v, w, v.Compare(w), a.Compare(b), errA, errB)
				}
			}
		}
	}
}

func TestAMemberWithoutEventsIsNotInAVector(t *testing.T) {
	v, err := clock.NewVector(map[string]uint64{"a": 0, "b": 2})
	if err != nil || v.String() != "b=2" || v.Len() != 1 || v.At("a") != 0 || v.At("b") != 2 {
		t.Errorf("%s, %v", v, err)
	}
	for member, n := range v.All() {
		if member != "b" || n != 2 {
			t.Errorf("%s=%d", member, n)
		}
		break
	}
}
