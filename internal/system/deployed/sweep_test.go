package deployed_test

import (
	"encoding/json"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

func TestSweepMakesTheFunctionsPublishEffectsThatLostTheirTrigger(t *testing.T) {
	w := newWorld(t)
	w.process(t, order("o-1", ""))
	w.take(t, "PublishFifo") // the trigger is lost
	info, err := w.system.Sweep(t.Context())
	if err != nil || info != (admin.SweepInfo{Groups: 1, Finished: 1}) {
		t.Fatalf("got %+v, %v", info, err)
	}
	if len(w.shop.got) > 0 {
		t.Error("the command line sent an effect")
	}
	w.publish(t)
	if len(w.shop.got) != 1 || w.shop.got[0].Identity != "orders/customer-7/1" {
		t.Errorf("sent %+v", w.shop.got)
	}
	if info, err = w.system.Sweep(t.Context()); err != nil || info != (admin.SweepInfo{Groups: 1}) {
		t.Errorf("again: %+v, %v", info, err)
	}
}

// TestSweepLeavesHandlersToTheFunctions has an expired gap: the messages held behind it can run,
// but only the deployed function has the handler. If they were returned to their queue from here,
// their principal would not be trusted.
func TestSweepLeavesHandlersToTheFunctions(t *testing.T) {
	w := newWorld(t)
	held := numbered(2)
	held.Principal = ann
	w.process(t, held)
	before, err := w.system.Group(t.Context(), "chat", "room")
	if err != nil {
		t.Fatal(err)
	}
	w.invoke("process", nil)
	info, err := w.system.Sweep(t.Context()) // the function fails
	if err != nil || info != (admin.SweepInfo{Groups: 1, Failed: 1}) {
		t.Fatalf("got %+v, %v", info, err)
	}
	if g, err := w.system.Group(t.Context(), "chat", "room"); err != nil || g.Held != 1 || g.Version != before.Version {
		t.Errorf("held before %+v, now %+v, %v", before, g, err)
	}
	w.invoke("process", func([]byte) any { return tasks.Swept{Groups: 7} })
	if info, err = w.system.Sweep(t.Context()); err != nil || info != (admin.SweepInfo{Groups: 1, Failed: 1}) {
		t.Errorf("where the function had no time for all: %+v, %v", info, err)
	}
	var asked tasks.Task
	w.invoke("process", func(payload []byte) any {
		if err := json.Unmarshal(payload, &asked); err != nil {
			t.Error(err)
		}
		return tasks.Swept{Groups: 1, Done: true}
	})
	info, err = w.system.Sweep(t.Context())
	if err != nil || info != (admin.SweepInfo{Groups: 1, Waiting: 1}) || asked.Once != tasks.Sweep { // this function ran nothing
		t.Errorf("got %+v, %v, asked for %q", info, err, asked.Once)
	}
}

func TestSweepSaysWhichGroupsStillWaitForAMissingNumber(t *testing.T) {
	w := newWorld(t)
	w.process(t, numbered(2)) // the gap policy skips 1
	info, err := w.system.Sweep(t.Context())
	if err != nil || info != (admin.SweepInfo{Groups: 1, Finished: 1}) {
		t.Errorf("after the gap: %+v, %v", info, err)
	}
	w = newWorldOf(t, "streams: {chat: {admission: sequence}}\n")
	w.process(t, numbered(2)) // the gap policy waits
	info, err = w.system.Sweep(t.Context())
	if err != nil || info != (admin.SweepInfo{Groups: 1, Waiting: 1}) {
		t.Errorf("before the gap: %+v, %v", info, err)
	}
}
