package batch

import "strconv"

// Results are those of the entries of one request, by their places, at a service that answers by the ids of entries.
type Results []error

// NewResults makes the results of a number of entries: none has one yet.
func NewResults(n int) Results {
	r := make(Results, n)
	for i := range r {
		r[i] = ErrNoResult
	}
	return r
}

// ID gives the id of an entry: its place.
func ID(i int) *string {
	id := strconv.Itoa(i)
	return &id
}

// Set notes the result of the entry with an id. An id that no entry has, or none at all, is passed over.
func (r Results) Set(id *string, err error) {
	if id == nil {
		return
	}
	if i, bad := strconv.Atoi(*id); bad == nil && i >= 0 && i < len(r) {
		r[i] = err
	}
}
