package file

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// renameBatch is how many bytes of records Rename writes at a time.
const renameBatch = 1 << 20

// Rename gives the records of one output file to another path, for a database that is restored to
// another place with its file. No sender may have one of the files open. A corrupt record is an
// error. After an error, or a crash, a part of the records is under each path, and the same call
// continues.
func Rename(db *pebble.DB, from, to string) (err error) {
	if from == to {
		return nil // each record would be deleted after it is written
	}
	old, renamed := newMarks(db, nil, from), newMarks(db, nil, to)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: old.prefix(0), UpperBound: old.prefix(0xff)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	batch := db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	kinds := len(old.prefix(0)) - 1
	for ok := it.First(); ok; ok = it.Next() {
		content, err := open(it.Key(), it.Value())
		if err != nil {
			return fmt.Errorf("rename output file %s: %w", from, err)
		}
		key := append(renamed.prefix(it.Key()[kinds]), it.Key()[kinds+1:]...)
		if err := errors.Join(batch.Set(key, seal(key, content), nil), batch.Delete(it.Key(), nil)); err != nil {
			return err
		}
		if batch.Len() < renameBatch {
			continue
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			return err
		}
		batch.Reset()
	}
	return errors.Join(it.Error(), batch.Commit(pebble.Sync))
}
