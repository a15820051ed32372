package client

import (
	"net/http"
	"testing"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// sequence encodes entries as the server does.
func sequence(t *testing.T, list ...record.Entry) (body []byte) {
	t.Helper()
	for i := range list {
		for _, c := range log.Chunks(&record.Group{Incarnation: 7}, list[i:i+1]) {
			encoded, err := log.Split(c, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range encoded {
				body = x.AppendCBOR(body, 7, x.Principal)
			}
		}
	}
	return body
}

func TestAnEntryHasItsOwnTextsAlsoIfThoseOfTheOneBeforeAreAsLong(t *testing.T) {
	got, ok := readEntries(sequence(t,
		record.Entry{Number: 1, Kind: record.EntryMessage, ID: "1", Group: "ga", Principal: "pa", Source: "sa", ContentType: "text/a"},
		record.Entry{Number: 2, Kind: record.EntryMessage, ID: "2", Group: "gb", Principal: "pb", Source: "sb", ContentType: "text/b"},
		record.Entry{Number: 3, Kind: record.EntryGap, ID: "3"},
	))
	if !ok || len(got) != 3 {
		t.Fatal(got, ok)
	}
	for i, want := range []Entry{{Kind: "message", Group: "ga", Principal: "pa", Source: "sa", ContentType: "text/a"}, {Kind: "message", Group: "gb", Principal: "pb", Source: "sb", ContentType: "text/b"}, {Kind: "gap"}} {
		e := &got[i]
		if e.Kind != want.Kind || e.Group != want.Group || e.Principal != want.Principal || e.Source != want.Source || e.ContentType != want.ContentType {
			t.Errorf("%+v", e)
		}
	}
}

func TestAPageOfASessionThatIsNotWholeIsRefused(t *testing.T) {
	entry := func(n uint64) record.Entry { return record.Entry{Number: n, Kind: record.EntryMessage, ID: "x"} }
	page := func(list ...record.Entry) answer {
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {cborSeq}}, body: sequence(t, list...)}
	}
	if p, refused := readSessionPage(page(entry(5), entry(6)), 4); refused != nil || len(p.entries) != 2 {
		t.Errorf("%+v %+v", p, refused)
	}
	for name, a := range map[string]answer{
		"a hole": page(entry(5), entry(7)), "another beginning": page(entry(6), entry(7)), "twice": page(entry(5), entry(5)),
		"cut off": {status: http.StatusOK, header: http.Header{"Content-Type": {cborSeq}}, body: sequence(t, entry(5))[:20]},
	} {
		if p, refused := readSessionPage(a, 4); refused == nil || len(p.entries) > 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestAShortFirstEntryDoesNotMakeAPageLarge(t *testing.T) {
	list, ok := readEntries(sequence(t, record.Entry{Number: 1, Kind: record.EntryMessage, ID: "x"}, record.Entry{Number: 2, Kind: record.EntryMessage, ID: "y", Body: make([]byte, 1<<20)}))
	if !ok || len(list) != 2 || cap(list) > 1000 {
		t.Errorf("%v: %d entries in memory for %d", ok, len(list), cap(list))
	}
}
