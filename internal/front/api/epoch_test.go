package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func (w *world) askEpoch(path string, headers ...string) uint64 {
	w.t.Helper()
	got := w.send("POST", path, "", headers...)
	var issued struct{ Epoch uint64 }
	if err := json.Unmarshal([]byte(got.body), &issued); err != nil || got.status != 200 || issued.Epoch == 0 {
		w.t.Fatalf("%d %s", got.status, got.body)
	}
	return issued.Epoch
}

func TestANewerEpochFencesTheMessagesOfAnOlderOne(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/streams/chat/epochs/ann%2F1?group=lobby"
	old := w.askEpoch(path)
	number := func(epoch uint64) []string {
		return []string{"Once-Source: ann/1", "Once-Group: lobby", "Once-Sequence: 1", fmt.Sprint("Once-Epoch: ", epoch)}
	}
	if got := w.send("POST", "/v1/streams/chat/messages", "x", number(old)...); got.status != 202 {
		t.Errorf("under the first epoch: %d %s", got.status, got.body)
	}
	epoch := w.askEpoch(path)
	if epoch <= old {
		t.Errorf("%d follows %d", epoch, old)
	}
	if got := w.send("POST", "/v1/streams/chat/messages", "x", number(old)...); got.status != 409 || !strings.Contains(got.body, "#fenced") {
		t.Errorf("under the older epoch: %d %s", got.status, got.body)
	}
	if got := w.send("POST", "/v1/streams/chat/messages", "x", number(epoch+1)...); got.status != 410 || !strings.Contains(got.body, "#unknown-epoch") {
		t.Errorf("under an epoch that was not issued: %d %s", got.status, got.body)
	}
	line := `{"source":"ann/1","group":"lobby","epoch":%d,"sequence":1,"content_type":"text/plain","body":"x"}` + "\n"
	got := w.send("POST", "/v1/streams/chat/batch", fmt.Sprintf(line+line+strings.Replace(line, "lobby", "hall", 1), old, epoch, 7), "Content-Type: application/x-ndjson")
	var statuses []int
	for l := range strings.Lines(got.body) {
		var r struct{ Status int }
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatal(err)
		}
		statuses = append(statuses, r.Status)
	}
	if fmt.Sprint(statuses) != "[409 202 202]" {
		t.Errorf("a batch: %s", got.body)
	}
	w.settled()
}

func TestAnEpochBelongsToTheCallerThatAskedForIt(t *testing.T) {
	w := newWorld(t)
	anns := w.askEpoch("/v1/streams/chat/epochs/phone", "Test-Principal: ann")
	w.askEpoch("/v1/streams/chat/epochs/phone", "Test-Principal: bob")
	if got := w.send("POST", "/v1/streams/chat/messages", "x", "Test-Principal: ann", "Once-Source: phone", "Once-Sequence: 1", fmt.Sprint("Once-Epoch: ", anns)); got.status != 202 {
		t.Errorf("%d %s", got.status, got.body)
	}
	w.settled()
}

func TestNoEpochIsIssuedForWhatCannotHaveOne(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]int{
		"/v1/streams/orders/epochs/ann":                                 400, // not numbered
		"/v1/streams/nowhere/epochs/ann":                                404,
		"/v1/streams/chat/epochs":                                       404,
		"/v1/streams/chat/epochs/":                                      404,
		"/v1/streams/chat/epochs/" + strings.Repeat("a", 257):           400,
		"/v1/streams/chat/epochs/ann?group=" + strings.Repeat("g", 257): 400,
	} {
		if got := w.send("POST", path, ""); got.status != want {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := w.send("POST", "/v1/streams/chat/epochs/ann", "", "Test-Principal: intruder"); got.status != 403 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestAnEpochIsNotIssuedAndNotCheckedWhileTheStoreFails(t *testing.T) {
	w := newWorld(t)
	epoch := w.askEpoch("/v1/streams/chat/epochs/ann")
	w.store.away.Store(true)
	if got := w.send("POST", "/v1/streams/chat/epochs/ann", ""); got.status != 503 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.send("POST", "/v1/streams/chat/messages", "x", "Once-Source: ann", "Once-Sequence: 1", fmt.Sprint("Once-Epoch: ", epoch)); got.status != 503 || w.queue.taken.Load() != 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestACopyOfARequestForAnEpochThatArrivesLateHasNoEffect(t *testing.T) {
	w := newWorld(t)
	const path = "/v1/streams/chat/epochs/ann?after="
	epoch := w.askEpoch(path + "0")
	got := w.send("POST", path+"0", "")
	if got.status != 409 || !strings.Contains(got.body, fmt.Sprintf(`"epoch":%d`, epoch)) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if next := w.askEpoch(path + fmt.Sprint(epoch)); next <= epoch {
		t.Errorf("%d follows %d", next, epoch)
	}
	if got := w.send("POST", path+"x", ""); got.status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
