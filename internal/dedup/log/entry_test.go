package log_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

func TestAnEntryIsReadWithTheFieldsOfItsMessage(t *testing.T) {
	x := full()
	x.Principal, x.Group = "p", "g"
	for _, e := range []record.Entry{x, {Kind: record.EntryMessage, ID: "a", Time: 1}} {
		e.Number = 1
		want := record.Entry{
			Number: 1, Kind: e.Kind, ID: e.ID, RedeliveryOf: e.RedeliveryOf, Group: e.Group, Principal: e.Principal, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence, Time: e.Time,
			ContentType: e.ContentType, Headers: e.Headers, Body: e.Body,
		}
		list := encoded(t, e)
		renumbered := list[0].Renumbered(9)
		got, err := renumbered.Entry()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(diff, err)
		}
	}
}
