package faultproxy

import "math/rand/v2"

// A Call is one request to the service.
type Call struct {
	// N counts the calls of a proxy from 1, including the SDK's retries.
	N uint64
	// Operation is the service's name of the call, such as PutItem.
	Operation string
}

// A Plan returns the fault of a call. It may be called concurrently.
type Plan func(Call) Fault

// Healthy is a plan without faults.
func Healthy(Call) Fault { return None }

// At returns a plan with faults by call number.
func At(bad map[uint64]Fault) Plan {
	return func(c Call) Fault { return bad[c.N] }
}

// Seeded returns a plan with random faults for a share (0 to 1) of the calls before the call until.
// The same seed and number always have the same fault.
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
