package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/effectively-once/once/internal/record"
)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A received request.
type received struct {
	header http.Header
	body   string
}

// A receiver records its requests; answer writes the answers, 204 if it is nil.
type receiver struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu  sync.Mutex
	got []received
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rc := &receiver{answer: answer}
	rc.Server = httptest.NewServer(rc)
	t.Cleanup(rc.Close)
	return rc
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	rc.mu.Lock()
	rc.got = append(rc.got, received{r.Header, string(body)})
	n := len(rc.got)
	rc.mu.Unlock()
	if rc.answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	rc.answer(n, w, r)
}

// ids returns the webhook-ids in the order of arrival.
func (rc *receiver) ids() []string {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	var ids []string
	for _, r := range rc.got {
		ids = append(ids, r.header.Get("webhook-id"))
	}
	return ids
}

func newSender(t *testing.T, url string, options Options) *Sender {
	t.Helper()
	s, err := New(url, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func numbered(group string, number uint64) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number,
		Effect: record.Effect{ID: fmt.Sprintf("m-%s-%d", group, number), ContentType: "application/json", Body: []byte(`{"n": 1}`)},
	}
}

func single(id string) record.Delivery {
	return record.Delivery{Identity: "orders/" + id, Stream: "orders", Effect: record.Effect{ID: id, Body: []byte(id)}}
}

func TestARequestCarriesSignatureIdentityAndOrigin(t *testing.T) {
	rc := newReceiver(t, nil)
	s := newSender(t, rc.URL+"/hook?token=1", Options{Secret: func() (string, error) { return testSecret, nil }})
	d := numbered(`e"ve`, 7)
	d.Effect.Headers = map[string]string{
		"X-Trace": "abc", "webhook-id": "forged", "Once-Stream": "forged", "idempotency-key": "forged", "Connection": "close",
		"bad name": "x", "X-Bad": "a\r\nX-Injected: b", "Content-Type": "forged", "Host": "forged",
		"webhook_id": "forged", "Webhook_Signature": "forged", "IDEMPOTENCY_KEY": "forged", "once_group": "forged", "Content_Length": "0", "Transfer_Encoding": "chunked",
	}
	d.Incarnation = 1_763_700_000_000
	if errs := s.Send(t.Context(), []record.Delivery{d}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	got := rc.got[0]
	key, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.Verify([]byte(got.body), got.header); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"Webhook-Signature", "Webhook-Timestamp", "User-Agent", "Accept-Encoding", "Content-Length"} {
		got.header.Del(name)
	}
	want := received{http.Header{
		"Webhook-Id": {`orders/e"ve/7`}, "Idempotency-Key": {`"orders/e\"ve/7"`}, "Content-Type": {"application/json"}, "X-Trace": {"abc"},
		"Once-Stream": {"orders"}, "Once-Group": {`e"ve`}, "Once-Number": {"7"}, "Once-Incarnation": {"1763700000000"}, "Once-Id": {`m-e"ve-7`},
	}, `{"n": 1}`}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); diff != "" {
		t.Error(diff)
	}
}

func TestWhileASecretIsRotatedReceiversOfBothVerifyARequest(t *testing.T) {
	const next = "whsec_bmV4dG5leHRuZXh0bmV4dG5leHRuZXh0"
	rc := newReceiver(t, nil)
	s := newSender(t, rc.URL, Options{Secret: func() (string, error) { return next + "\n" + testSecret, nil }})
	if errs := s.Send(t.Context(), []record.Delivery{single("x")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	for secret, want := range map[string]bool{next: true, testSecret: true, "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXI=": false} {
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Verify([]byte(rc.got[0].body), rc.got[0].header); (err == nil) != want {
			t.Errorf("a receiver with %s: %v", secret, err)
		}
	}
}

func TestWithoutASecretARequestIsNotSigned(t *testing.T) {
	rc := newReceiver(t, nil)
	errs := newSender(t, rc.URL, Options{}).Send(t.Context(), []record.Delivery{single("x")})
	if errs[0] != nil || rc.got[0].header.Get("webhook-signature") != "" || rc.got[0].header.Get("webhook-timestamp") == "" {
		t.Errorf("%v, %v", errs[0], rc.got[0].header)
	}
}

func TestAnIdentityThatHeadersCannotCarryIsEscapedAndStillVerifies(t *testing.T) {
	rc := newReceiver(t, nil)
	s := newSender(t, rc.URL, Options{Secret: func() (string, error) { return testSecret, nil }})
	if errs := s.Send(t.Context(), []record.Delivery{single("café ")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if diff := cmp.Diff([]string{"~orders%2Fcaf%C3%A9%20"}, rc.ids()); diff != "" {
		t.Error(diff)
	}
	key, _ := standardwebhooks.NewWebhook(testSecret)
	if err := key.Verify([]byte(rc.got[0].body), rc.got[0].header); err != nil {
		t.Error(err)
	}
}

func TestABadSecretFailsWithoutARequestAndIsNotInTheError(t *testing.T) {
	rc := newReceiver(t, nil)
	for _, secret := range []string{"not base64!", "", "whsec_", testSecret + " not%base64!", testSecret + " whsec_", strings.Repeat(testSecret+" ", 4)} {
		s := newSender(t, rc.URL, Options{Secret: func() (string, error) { return secret, nil }})
		errs := s.Send(t.Context(), []record.Delivery{single("x")})
		if errs[0] == nil || strings.Contains(errs[0].Error(), "base64!") || strings.Contains(errs[0].Error(), testSecret) {
			t.Errorf("%q: got %v", secret, errs[0])
		}
	}
	lost := errors.New("no such variable")
	s := newSender(t, rc.URL, Options{Secret: func() (string, error) { return "", lost }})
	if errs := s.Send(t.Context(), []record.Delivery{single("x"), single("y")}); !errors.Is(errs[1], lost) {
		t.Errorf("got %v", errs)
	}
	if len(rc.ids()) != 0 {
		t.Errorf("requests %v", rc.ids())
	}
}

func TestAFailureStopsItsGroupOnly(t *testing.T) {
	rc := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("webhook-id") == "orders/a/2" || r.Header.Get("webhook-id") == "orders/x" {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	s := newSender(t, rc.URL, Options{})
	errs := s.Send(t.Context(), []record.Delivery{
		numbered("a", 1), numbered("b", 1), numbered("a", 2), single("x"), numbered("a", 3), numbered("b", 2), single("y"), numbered("a", 4),
	})
	var settled []bool
	for _, err := range errs {
		settled = append(settled, err == nil)
	}
	if diff := cmp.Diff([]bool{true, true, false, false, false, true, true, false}, settled); diff != "" {
		t.Error(diff, errs)
	}
	for _, id := range rc.ids() {
		if id == "orders/a/3" || id == "orders/a/4" {
			t.Errorf("%s was sent after a failure", id)
		}
	}
}

func TestDeliveriesOfAGroupArriveInNumberOrderWhileGroupsRunInParallel(t *testing.T) {
	const groups, numbers = 4, 20
	meet := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Add(groups)
	go func() { waiting.Wait(); close(meet) }()
	rc := newReceiver(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("once-number") == "1" { // the groups' first ones wait for each other
			waiting.Done()
			<-meet
		}
	})
	var deliveries []record.Delivery
	for n := range numbers {
		for g := range groups {
			deliveries = append(deliveries, numbered(fmt.Sprint(g), uint64(n+1)))
		}
	}
	secrets := func() (string, error) { return testSecret + " " + testSecret, nil }
	for _, err := range newSender(t, rc.URL, Options{Secret: secrets}).Send(t.Context(), deliveries) {
		if err != nil {
			t.Fatal(err)
		}
	}
	last := map[string]string{}
	for _, r := range rc.got {
		group, number := r.header.Get("once-group"), r.header.Get("once-number")
		before := last[group]
		if len(before) > len(number) || len(before) == len(number) && before >= number {
			t.Errorf("group %s: number %s after %s", group, number, before)
		}
		last[group] = number
	}
}

func TestAtMostTheConfiguredNumberOfRequestsIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &holding{release: make(chan struct{})}
		done := make(chan error)
		go func() {
			done <- errors.Join(newSender(t, "http://shop.example", Options{Concurrency: 2, Transport: h}).Send(t.Context(), make([]record.Delivery, 8))...)
		}()
		for range 4 {
			synctest.Wait()
			if n := h.now.Load(); n != 2 {
				t.Errorf("%d requests at once, want 2", n)
			}
			h.release <- struct{}{}
			h.release <- struct{}{}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A holding receiver answers a request when it is released.
type holding struct {
	now     atomic.Int64
	release chan struct{}
}

func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	h.now.Add(1)
	<-h.release
	h.now.Add(-1)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
}

func TestGoneRefusesThisDeliveryOnly(t *testing.T) {
	rc := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	s := newSender(t, rc.URL, Options{})
	errs := s.Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("a", 2)})
	var refused *record.RefusedError
	if !errors.As(errs[0], &refused) || refused.Reason != record.ReasonGone || refused.Detail != rc.Listener.Addr().String()+" answered 410 Gone" {
		t.Errorf("the first: %v, want a refusal", errs[0])
	}
	if errs[1] != nil || len(rc.ids()) != 2 {
		t.Errorf("the second: %v after the requests %v, want it sent", errs[1], rc.ids())
	}
}

func TestARedirectIsAFailureAndIsNotFollowed(t *testing.T) {
	other := newReceiver(t, nil)
	rc := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if errs := newSender(t, rc.URL, Options{}).Send(t.Context(), []record.Delivery{single("x")}); errs[0] == nil {
		t.Error("settled")
	}
	if len(rc.ids()) != 1 || len(other.ids()) != 0 {
		t.Errorf("requests %v, %v", rc.ids(), other.ids())
	}
}

func TestAnErrorDoesNotContainTheURL(t *testing.T) {
	rc := newReceiver(t, nil)
	rc.Close()
	s := newSender(t, rc.URL+"/hook?token=hidden", Options{Budget: time.Nanosecond})
	errs := s.Send(t.Context(), []record.Delivery{single("x")})
	if errs[0] == nil || strings.Contains(errs[0].Error(), "hidden") {
		t.Errorf("got %v", errs[0])
	}
}

func TestALongAnswerIsNotReadToItsEnd(t *testing.T) {
	stopped := make(chan bool, 1)
	rc := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 32<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				stopped <- true
				return
			}
		}
	})
	if errs := newSender(t, rc.URL, Options{}).Send(t.Context(), []record.Delivery{single("x")}); errs[0] != nil {
		t.Error(errs[0])
	}
	<-stopped
}

func TestOnlyAbsoluteHTTPURLsAreAccepted(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://shop.example/hook?x=1": true, "http://127.0.0.1:8080": true, "": false, "/hook": false, "shop.example/hook": false,
		"ftp://shop.example": false, "https://": false, "https://:443/": false, "https://a:b@shop.example": false, "https://shop.example/#a": false, "http://%zz": false,
	} {
		if err := validURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := New("ftp://x", Options{}); err == nil {
		t.Error("made a sender for ftp")
	}
}
