package record_test

import (
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func TestRestoresOfAFolderAndOfAConfigurationAreOneListWithoutRepetitions(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 26, hour, 0, 0, 0, time.UTC) }
	folder := record.Restores{{At: at(2)}, {At: at(4), Stamped: true}}
	zone := time.FixedZone("", 3600)
	got := folder.With([]time.Time{at(1), at(2).In(zone), at(4), at(5)})
	want := record.Restores{{At: at(1)}, {At: at(2)}, {At: at(4), Stamped: true}, {At: at(5)}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) || got[i].Stamped != want[i].Stamped {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if len(folder) != 2 || folder.Stamped() != true || folder[:1].Stamped() {
		t.Errorf("%v was changed", folder)
	}
}

// TestNumbersBeginAboveThoseOfEveryEarlierRestore has restores that a group has had since its last
// commit: one that is listed, a stamp, one that is listed after it, and a stamp a moment later.
func TestNumbersBeginAboveThoseOfEveryEarlierRestore(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	all := record.Restores{{At: at}, {At: at.Add(time.Hour), Stamped: true}, {At: at.Add(2 * time.Hour)}, {At: at.Add(2*time.Hour + time.Millisecond), Stamped: true}}
	g := &record.Group{Version: 1, Incarnation: 7, Last: 5, Log: record.Log{Last: 9}}
	epoch, want := uint64(7), []uint64{5, 1 << 40, uint64(all[1].At.UnixMilli()) << 11, uint64(all[2].At.UnixMilli()) << 11, uint64(all[3].At.UnixMilli()) << 11}
	var numbers []uint64
	for n := range len(all) + 1 {
		for range 2 { // the second one has nothing to do
			if err := all[:n].Apply(g, true); err != nil {
				t.Fatal(err)
			}
			if g.Last != want[n] || n > 0 && g.Log.Last != want[n] {
				t.Errorf("after %d restores: numbers follow %d and %d, want %d", n, g.Last, g.Log.Last, want[n])
			}
		}
		numbers = append(numbers, g.Last+1)
		for i, number := range numbers { // pending ones keep their epochs
			got, err := all[:n].Epoch(g.Incarnation, number)
			if want := []uint64{7, millis(all, 0), millis(all, 1), millis(all, 2), millis(all, 3)}[i]; err != nil || got != want {
				t.Errorf("after %d restores, number %d: epoch %d, %v, want %d", n, number, got, err, want)
			}
		}
		if got, err := all[:n].Epoch(g.Incarnation, g.Last+1); err != nil || n > 0 && got <= epoch {
			t.Errorf("after %d restores: epoch %d, %v, follows %d", n, got, err, epoch)
		} else {
			epoch = got
		}
	}
}

func millis(r record.Restores, i int) uint64 { return uint64(r[i].At.UnixMilli()) }

func TestARecordWithNumbersOfARestoreThatIsNotListedIsRefused(t *testing.T) {
	stamp := record.Restore{At: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), Stamped: true}
	for _, r := range []record.Restores{nil, {stamp}} {
		var unknown *record.RestoreError
		if _, err := r.Epoch(1, 2<<40+1); !errors.As(err, &unknown) || unknown.Restore != 2 {
			t.Errorf("%v: %v", r, err)
		}
	}
	if err := (record.Restores{}).Apply(&record.Group{Last: millis(record.Restores{stamp}, 0) << 11}, false); err == nil {
		t.Error("a system without the stamp writes the record")
	}
}

func TestAReaderNoticesARestoreBetweenTwoNumbers(t *testing.T) {
	at := uint64(time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC).UnixMilli())
	for _, x := range []struct {
		from, to uint64
		want     bool
	}{
		{5, 500, false},
		{5, 1<<40 + 1, true},
		{1<<40 + 7, 1<<40 + 900, false},
		{5, at<<11 + 1, true},
		{1000<<40 + 5, at<<11 + 1, true},
		{at<<11 + 1, at<<11 + 900, false},
		{at<<11 + 1, (at+60_000)<<11 + 1, true},
	} {
		if got := record.Jumps(x.from, x.to); got != x.want {
			t.Errorf("between %d and %d: %v", x.from, x.to, got)
		}
	}
}

func TestTwoLivesOfOneCopyHaveDifferentNames(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one, two := record.Restores{{At: at, Stamped: true}}, record.Restores{{At: at.Add(time.Hour), Stamped: true}}
	after := at.Add(2 * time.Hour)
	if a, b := one.Before(after), two.Before(after); a == b || one.Before(at) != 0 {
		t.Errorf("%d and %d", a, b)
	}
	if n := (record.Restores{{At: at}}).Before(after); n != 1 {
		t.Errorf("a listed restore is %d", n)
	}
}
