package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/system/embedded"
)

// BenchmarkPagesWith100000Groups renders each page of a system with 100,000 groups, of which 1,000
// miss a number, and 1,000 dead letters.
func BenchmarkPagesWith100000Groups(b *testing.B) {
	const groups, gaps, letters = 100_000, 1000, 1000
	w := newWorld(b, embedded.ConsoleRead)
	var messages []client.Message
	send := func() {
		for _, r := range w.client.SendBatch(b.Context(), messages) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
		messages = messages[:0]
	}
	add := func(m client.Message) {
		if messages = append(messages, m); len(messages) == 1000 {
			send()
		}
	}
	for i := range groups {
		add(client.Message{Stream: "room", Key: fmt.Sprint("m-", i), Group: fmt.Sprintf("group-%06d", i), Body: []byte(`{"n":1}`)})
	}
	for i := range gaps {
		add(client.Message{Stream: "numbers", Source: "bob", Sequence: 2, Group: fmt.Sprint("gap-", i), Body: []byte(`1`)})
	}
	for i := range letters {
		add(client.Message{Stream: "jobs", Key: fmt.Sprint("bad-", i), Body: []byte(hostile)})
	}
	send()
	id := w.letters(letters)[0].MessageID
	found, err := w.system.Message(b.Context(), "room", "m-70000")
	if err != nil {
		b.Fatal(err)
	}
	of := func(pairs ...string) string {
		values := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return "?" + values.Encode()
	}
	for _, page := range []string{
		"", "/streams", "/groups" + of("stream", "room", "after", "group-050000"), "/group" + of("stream", "room", "group", "group-070000"), "/group" + of("stream", "numbers", "group", "gap-7"),
		"/message" + of("stream", "room", "id", "m-70000"), "/message" + of("stream", "jobs", "id", "bad-7"), "/letters", "/letters" + of("reason", "rejected", "stream", "jobs"), "/letter" + of("id", id), "/letter" + of("id", id, "body", "1"),
		"/log" + of("stream", "room", "group", "group-070000"), "/sessions" + of("stream", "work"), "/find", "/find" + of("hash", found.Hash), "/message" + of("stream", "room", "id", "nothing"), "/totals", "/totals" + of("count", "1"),
	} {
		b.Run("console"+page, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "http://localhost/console"+page, nil)
				recorder := httptest.NewRecorder()
				w.system.Handler().ServeHTTP(recorder, r)
				if recorder.Code != 200 && recorder.Code != http.StatusNotFound {
					b.Fatal(recorder.Code, recorder.Body)
				}
			}
		})
	}
}
