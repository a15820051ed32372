package pebblestore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// A reader reads records of one snapshot, which it takes with the first record that may exist. Most
// lookups are of identities that were never stored, and the filter of keys answers them.
type reader struct {
	store *Store
	iter  *pebble.Iterator // nil before the first lookup
}

// read calls f with a reader. The caller must hold the latches of all records that f reads.
func (s *Store) read(f func(r *reader) error) (err error) {
	r := reader{store: s}
	defer func() {
		if r.iter != nil {
			err = errors.Join(err, r.iter.Close())
		}
	}()
	return f(&r)
}

// view calls f with the unexpired record of a key, if there is one. The record is valid until f
// returns.
func (r *reader) view(key []byte, f func(checked) error) error {
	if r.store.presence.Absent(key) {
		return nil
	}
	if err := r.open(); err != nil {
		return err
	}
	if !r.iter.SeekPrefixGE(key) {
		return r.iter.Error()
	}
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return err
	}
	c, err := open(key, value)
	if err == nil && !expired(c.expires, r.store.now()) {
		err = f(c)
	}
	return err
}

// open opens the iterator. Unlike pebble.DB.Get, it can use the bloom filters of the last level.
func (r *reader) open() (err error) {
	if r.iter == nil {
		r.iter, err = r.store.db.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypePointsOnly, UseL6Filters: true})
	}
	return err
}
