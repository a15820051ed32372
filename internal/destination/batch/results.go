package batch

import "strconv"

// Results are the results of one request's entries, by index, for services that identify entries by
// id.
type Results []error

// NewResults returns results for n entries, all ErrNoResult.
func NewResults(n int) Results {
	r := make(Results, n)
	for i := range r {
		r[i] = ErrNoResult
	}
	return r
}

// ID returns the id of an entry: its index.
func ID(i int) *string {
	id := strconv.Itoa(i)
	return &id
}

// Set sets the result of the entry with an id. It ignores an unknown id and nil.
func (r Results) Set(id *string, err error) {
	if id == nil {
		return
	}
	if i, bad := strconv.Atoi(*id); bad == nil && i >= 0 && i < len(r) {
		r[i] = err
	}
}
