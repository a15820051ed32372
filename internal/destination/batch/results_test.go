package batch_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/destination/batch"
)

func TestAResultBelongsToTheEntryThatItNames(t *testing.T) {
	errBusy := errors.New("busy")
	text := func(s string) *string { return &s }
	r := batch.NewResults(4)
	r.Set(batch.ID(2), nil)
	r.Set(batch.ID(0), errBusy)
	for _, id := range []*string{nil, text(""), text("x"), text("-1"), batch.ID(4)} {
		r.Set(id, nil)
	}
	if d := cmp.Diff(batch.Results{errBusy, batch.ErrNoResult, nil, batch.ErrNoResult}, r, cmpopts.EquateErrors()); d != "" {
		t.Error(d)
	}
}
