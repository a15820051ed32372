package record

import (
	"context"
	"sync"
)

// A Swap is one conditional write of a token, see [Store.SwapToken].
type Swap struct{ Old, Next Token }

// Swapped is the result of a [Swap]: what [Store.SwapToken] returns.
type Swapped struct {
	Token Token
	Err   error
}

// A TokenSwapper is a store that can swap many tokens with one write.
type TokenSwapper interface {
	// SwapTokens does what SwapToken does for each of the swaps, and returns a result for each. No
	// two swaps have the same key. The swaps are not atomic together: each has its own condition.
	SwapTokens(ctx context.Context, swaps []Swap) []Swapped
}

// swapping is how many swaps run concurrently in a store that is no [TokenSwapper].
const swapping = 16

// SwapTokens swaps tokens of different keys, with one write if the store can do that, otherwise
// concurrently. It returns a result for each swap.
func SwapTokens(ctx context.Context, s Store, swaps []Swap) []Swapped {
	if all, ok := s.(TokenSwapper); ok {
		return all.SwapTokens(ctx, swaps)
	}
	results := make([]Swapped, len(swaps))
	swap := func(i int) { results[i].Token, results[i].Err = s.SwapToken(ctx, swaps[i].Old, swaps[i].Next) }
	if len(swaps) == 1 {
		swap(0)
		return results
	}
	places := make(chan int)
	var workers sync.WaitGroup
	for range min(swapping, len(swaps)) {
		workers.Go(func() {
			for i := range places {
				swap(i)
			}
		})
	}
	for i := range swaps {
		places <- i
	}
	close(places)
	workers.Wait()
	return results
}
