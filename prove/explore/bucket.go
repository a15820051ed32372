package explore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

var _ record.Blobs = blobsPort{}

// blobsPort implements record.Blobs for a worker.
type blobsPort struct{ *host }

func (b blobsPort) Check(string) error { return nil }

func (b blobsPort) Stage(_ context.Context, name string, body []byte) error {
	return b.change("stage", name+": "+string(body), func(v view, staged map[string]stagedBlob, _ map[string]string) {
		staged[name] = stagedBlob{string(body), v.now}
	})
}

func (b blobsPort) Publish(_ context.Context, blob record.Blob) error {
	return b.change("publish blob", blob.Staged+" as "+blob.Key, func(_ view, staged map[string]stagedBlob, published map[string]string) {
		if s, ok := staged[blob.Staged]; ok {
			published[blob.Key] = s.Body
			delete(staged, blob.Staged)
		}
	})
}

func (b blobsPort) Discard(_ context.Context, names []string) error {
	return b.change("discard", strings.Join(names, ", "), func(_ view, staged map[string]stagedBlob, _ map[string]string) {
		for _, name := range names {
			delete(staged, name)
		}
	})
}

func (b blobsPort) Staged(_ context.Context, before time.Time) ([]string, error) {
	c := call{op: "list staged", touches: touchBlobs, reads: true, text: "list what is staged"}
	c.apply = func(v view) outcome {
		var names []string
		for name, s := range v.blobs.staged {
			if s.At.Before(before) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return outcome{view: v, answer: b.w.answerOf(keyOf("staged", names), strings.Join(names, ", "), v.now, names, nil)}
	}
	a := b.ask(c, before)
	names, _ := a.value.([]string)
	return slices.Clone(names), a.err
}

func (b blobsPort) change(op, what string, change func(v view, staged map[string]stagedBlob, published map[string]string)) error {
	c := call{op: op, touches: touchBlobs, text: op + " " + what}
	c.apply = func(v view) outcome {
		staged, published := maps.Clone(v.blobs.staged), maps.Clone(v.blobs.published)
		change(v, staged, published)
		v.blobs = b.w.blobsOf(staged, published)
		return outcome{view: v, answer: b.w.done(v.now)}
	}
	return b.ask(c, what).err
}
