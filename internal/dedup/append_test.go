package dedup_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func TestACommitReportsItsGroupOnlyIfItAppendsToTheLog(t *testing.T) {
	for _, logs := range []bool{true, false} {
		var appended []string
		stream := byKey
		stream.LogRetention, stream.LogMessages = time.Hour, logs
		w := newLab(t).workerOf(dedup.Config{
			Streams: []record.Stream{stream}, Appended: func(key record.GroupKey) { appended = append(appended, key.Group) },
		})
		var want []string
		if logs {
			want = []string{"g"}
		}
		same(t, "fates", w.process(keyed("a")...), []string{"processed"})
		same(t, "reported", appended, want)
		same(t, "fates", w.process(keyed("a")...), []string{"duplicate"})
		same(t, "reported after a copy", appended, want)
	}
}
