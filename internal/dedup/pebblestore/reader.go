package pebblestore

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
)

// A reader reads records of one snapshot, which it takes with the first record that may exist. Most
// lookups are of identities that were never stored, and the filter of keys answers them. Its user
// holds the latches of all records that it reads, and closes it.
type reader struct {
	store *Store
	iter  *pebble.Iterator // nil before the first lookup
}

// view returns the unexpired record of a key, if there is one. The record is valid until the next
// view.
func (r *reader) view(key []byte) (c checked, ok bool, err error) {
	if r.store.presence.Absent(key) {
		return checked{}, false, nil
	}
	if err := r.open(); err != nil {
		return checked{}, false, err
	}
	// Pebble gets a copy, so that the key of a lookup that ends above need not be on the heap.
	if !r.iter.SeekPrefixGE(bytes.Clone(key)) {
		return checked{}, false, r.iter.Error()
	}
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return checked{}, false, err
	}
	if c, err = open(key, value); err != nil || expired(c.expires, r.store.now()) {
		return checked{}, false, err
	}
	return c, true, nil
}

// open opens the iterator. Unlike pebble.DB.Get, it can use the bloom filters of the last level.
func (r *reader) open() (err error) {
	if r.iter == nil {
		r.iter, err = r.store.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: true})
	}
	return err
}

// close ends the snapshot.
func (r *reader) close() error {
	if r.iter == nil {
		return nil
	}
	return r.iter.Close()
}
