package client_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/effectively-once/once/client"
)

func TestSiblingsHaveOneOrderWhateverTheOrderOfTheirArrival(t *testing.T) {
	want := []client.Entry{
		{Time: 1, Source: "z"},
		{Time: 2, Source: "a", Epoch: 1, Sequence: 9},
		{Time: 2, Source: "a", Epoch: 2, Sequence: 1},
		{Time: 2, Source: "a", Epoch: 2, Sequence: 2},
		{Time: 2, Source: "b"},
		{Time: 3, ID: "x"},
		{Time: 3, ID: "y"},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		got := slices.Clone(want)
		rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, client.CompareSiblings)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v", got)
		}
	}
	if client.CompareSiblings(want[0], want[0]) != 0 {
		t.Error("an entry is before itself")
	}
}

func ExampleCompareSiblings() {
	answers := []client.Entry{
		{Number: 3, ID: "bob-1", Source: "bob", Time: 7, Parents: []uint64{1}},
		{Number: 2, ID: "ann-1", Source: "ann", Time: 5, Parents: []uint64{1}},
	}
	slices.SortFunc(answers, client.CompareSiblings)
	for _, e := range answers {
		fmt.Println(e.Number, e.ID)
	}
	// Output:
	// 2 ann-1
	// 3 bob-1
}
