package faultproxy

import "math/rand/v2"

// A Call is one request on its way to the service.
type Call struct {
	// N counts the calls of a proxy from 1, the repeated ones of the SDK included.
	N uint64
	// Operation is the service's word for it, such as PutItem.
	Operation string
}

// A Plan tells what happens to a call. It may be asked concurrently.
type Plan func(Call) Fault

// Healthy is a plan without faults.
func Healthy(Call) Fault { return None }

// At plans faults for calls by their numbers.
func At(bad map[uint64]Fault) Plan {
	return func(c Call) Fault { return bad[c.N] }
}

// Seeded plans faults for a share of the first calls, 0 to 1, the same ones for a seed and a number each time. From call until on there are no more.
func Seeded(seed uint64, share float64, until uint64) Plan {
	all := Faults()
	return func(c Call) Fault {
		rnd := rand.New(rand.NewPCG(seed, c.N)) //nolint:gosec // a plan that can be repeated, not a secret
		if c.N >= until || rnd.Float64() >= share {
			return None
		}
		return all[rnd.IntN(len(all))]
	}
}
