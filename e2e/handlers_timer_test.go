package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestAReservationInPythonIsReleasedByItsTimerOnceThoughTheServerIsKilled(t *testing.T) {
	const folder = "../examples/reservations/python"
	const soon = `order, timedelta(seconds=1 if order == "late" else 900)`
	text, err := os.ReadFile(filepath.Join(folder, "once.yaml"))
	must(t, err)
	h := &handled{server: newServer(t, onceBinary, string(text)), replies: map[string][]handlerReply{}}
	h.row.example = &handlerExample{stream: "reservations"}
	must(t, copyFiles(folder, h.dir, "once.yaml"))
	handler, err := os.ReadFile(h.path("reserve.py"))
	must(t, err)
	must(t, os.WriteFile(h.path("reserve.py"), bytes.ReplaceAll(handler, []byte("order, HOLD_TIME"), []byte(soon)), 0o600))
	h.env = pythonPackage(t, h.dir)
	must(t, h.start())

	for i, o := range []struct{ body, reply string }{
		{`{"Add":10}`, `{"OnHand":10,"Reserved":{}}`},
		{`{"Reserve":2,"Order":"paid"}`, `{"OnHand":8,"Reserved":{"paid":2}}`},
		{`{"Order":"paid","Paid":true}`, `{"OnHand":8,"Reserved":{}}`},
		{`{"Reserve":3,"Order":"late"}`, `{"OnHand":5,"Reserved":{"late":3}}`},
	} {
		key := strconv.Itoa(i)
		must(t, h.send(t.Context(), operation{key: key, group: "lamp", body: o.body}))
		if got := h.replies[key][0]; got.body != o.reply {
			t.Errorf("%s was answered %+v, want %s", o.body, got, o.reply)
		}
	}
	must(t, h.kill(), h.start())
	ctx, cancel := context.WithTimeout(t.Context(), drainTime)
	defer cancel()
	must(t, poll(ctx, 50*time.Millisecond, func() (bool, error) {
		shop, err := os.ReadFile(h.path("out/shop.jsonl"))
		return err == nil && len(shop) > 0, nil
	}))
	must(t, h.send(t.Context(), operation{key: "last", group: "lamp", body: `{"Add":1}`}))
	if got := h.replies["last"][0].body; got != `{"OnHand":9,"Reserved":{}}` {
		t.Errorf("then there is %s, want the pieces of late back, and those of paid gone", got)
	}
	for file, want := range map[string]string{"out/shop.jsonl": `{"Order":"late","Pieces":3}`, "out/warehouse.jsonl": `{"Order":"paid","Pieces":2}`} {
		if lines, err := readLines(h.path(file)); err != nil || len(lines) != 1 || string(lines[0].Body) != want {
			t.Errorf("%s has %+v (%v), want %s once", file, lines, err, want)
		}
	}
}
