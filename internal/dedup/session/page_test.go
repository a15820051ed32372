package session_test

import (
	"fmt"
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
)

// A page has entries of several ranges. Each is read by itself, but the page is bounded as a whole.
func TestAPageIsBoundedHoweverManyRangesItHas(t *testing.T) {
	const partitions, each100KB = 8, 4
	each(t, session.Config{}, session.Pool{Partitions: partitions}, func(w *world) {
		for p := range uint64(partitions) {
			for range each100KB {
				w.appendLarge(session.Partition(stream, p), 100<<10)
			}
		}
		f, at := w.open(ann, session.TakeFree).Fence, uint64(0)
		for pages := 0; ; pages++ {
			page, err := w.readAfter(ann, f, at, 1000)
			w.noError(err)
			if len(page.Entries) == 0 {
				if want := fmt.Sprint(partitions * each100KB); fmt.Sprint(at) != want {
					w.Errorf("read up to %d of %s", at, want)
				}
				break
			}
			size := 0
			for i := range page.Entries {
				size += page.Entries[i].Size()
			}
			if size > 1<<20+101<<10 {
				w.Errorf("page %d has %d bytes", pages, size)
			}
			if page.Next-at != uint64(len(page.Entries)) {
				w.Errorf("page %d ends at %d", pages, page.Next)
			}
			at = page.Next
		}
	})
}
