package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

func wantNoRoom(t *testing.T, err error) {
	t.Helper()
	if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Type != problem.RateLimited {
		t.Errorf("error %v, want rate-limited", err)
	}
}

func TestABatchWaitsUntilOthersAreProcessedAndIsRateLimitedIfThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := api.NewRoom()
		var leave func()
		for range 8 {
			var err error
			if leave, err = room.Process(t.Context(), batch.MaxBytes); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		_, err := room.Process(t.Context(), 1)
		wantNoRoom(t, err)
		if waited := time.Since(begun); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := room.Process(gone, 1); err == nil {
			t.Error("a caller who has gone got room")
		}
		time.AfterFunc(time.Second, leave)
		if _, err := room.Process(t.Context(), batch.MaxBytes); err != nil {
			t.Errorf("no room after another batch has left: %v", err)
		}
	})
}

func TestABatchIsReadWholeWhateverItsLengthSays(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", batch.MaxBytes/16)
	for _, size := range []int{0, 1, 1000, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20, batch.MaxBytes} {
		for _, length := range []int64{int64(size), -1, 0, 1 << 40} {
			data, leave, err := api.NewRoom().Read(strings.NewReader(text[:size]), length)
			if string(data) != text[:size] || err != nil {
				t.Errorf("%d bytes, announced as %d: read %d, %v", size, length, len(data), err)
			}
			leave()
		}
	}
	if data, leave, err := api.NewRoom().Read(iotest.DataErrReader(strings.NewReader("last")), 4); string(data) != "last" || err != nil {
		t.Errorf("read %q, %v", data, err)
	} else {
		leave()
	}
}

func TestBatchesOccupyTheMemoryOfBytesThatWereSentNotOfThoseAnnounced(t *testing.T) {
	room := api.NewRoom()
	var leaves []func()
	for range 256 { // of 4 MB as announced, together 1 GB
		_, leave, err := room.Read(iotest.ErrReader(io.ErrUnexpectedEOF), batch.MaxBytes)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("error %v", err)
		}
		leaves = append(leaves, leave)
	}
	for _, leave := range leaves {
		leave()
	}
	whole := make([]byte, batch.MaxBytes)
	for range 31 {
		if _, _, err := room.Read(bytes.NewReader(whole), batch.MaxBytes); err != nil {
			t.Fatal(err)
		}
	}
	_, leave, err := room.Read(bytes.NewReader(whole), batch.MaxBytes)
	wantNoRoom(t, err)
	leave()
	if _, _, err := room.Read(bytes.NewReader(whole[:1000]), 1000); err != nil {
		t.Errorf("no room for a small batch after a large one was refused: %v", err)
	}
}

func TestBatchesOneAfterTheOtherAlwaysHaveRoom(t *testing.T) {
	w := newWorld(t)
	for range 33 { // more than have room at a time, whatever becomes of them
		w.results(w.send("POST", ordersBatch, string(gzipped(t, lines(`{"key":"a"}`))), ndjson, "Content-Encoding: gzip"))
		wantProblem(t, w.send("POST", ordersBatch, "not compressed", ndjson, "Content-Encoding: gzip"), problem.MalformedRequest)
		wantProblem(t, w.send("POST", ordersBatch, string(gzipped(t, "\n")), ndjson, "Content-Encoding: gzip"), problem.MalformedRequest)
		wantProblem(t, w.send("POST", ordersBatch, strings.Repeat("\n", batch.MaxBytes), ndjson), problem.MalformedRequest)
	}
}

func TestABodyThatIsOnlyAnnouncedTakesLittleMemory(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789abcdef"), record.MaxBody/16)
	for _, length := range []int{0, 1, api.FirstRead - 1, api.FirstRead, api.FirstRead + 1, record.MaxBody} {
		got, err := api.ReadLength(iotest.HalfReader(bytes.NewReader(whole[:length])), length)
		if err != nil || !bytes.Equal(got, whole[:length]) {
			t.Errorf("of %d bytes: %d, %v", length, len(got), err)
		}
		if length == 0 {
			continue
		}
		if _, err := api.ReadLength(bytes.NewReader(whole[:length-1]), length); err == nil {
			t.Errorf("of %d bytes, with one less: no error", length)
		}
	}
	taken := uint64(math.MaxUint64)
	for range 20 { // other goroutines may allocate meanwhile
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := api.ReadLength(bytes.NewReader(whole[:1]), record.MaxBody)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Fatal("no error")
		}
		taken = min(taken, after.TotalAlloc-before.TotalAlloc)
	}
	if taken > api.FirstRead+1<<10 {
		t.Errorf("a byte of an announced MiB takes %d bytes", taken)
	}
}

func TestLargeBodiesWaitUntilThereIsRoomAndSmallOnesDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := api.NewRoom()
		var leave func()
		for range 8 * batch.MaxBytes / record.MaxBody {
			var err error
			if leave, err = room.Body(t.Context(), record.MaxBody); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if _, err := room.Body(t.Context(), api.FirstRead); err != nil || time.Since(begun) > 0 {
			t.Errorf("a small one: %v after %v", err, time.Since(begun))
		}
		_, err := room.Body(t.Context(), record.MaxBody)
		wantNoRoom(t, err)
		if waited := time.Since(begun); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		leave()
		if _, err := room.Body(t.Context(), record.MaxBody); err != nil {
			t.Error(err)
		}
	})
}
