package api_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

func FuzzPrefer(f *testing.F) {
	for _, seed := range []string{"", "wait=1", `a="b, wait=2", wait=3; c`, `"`, `\`, ",,;;==", "WAIT = 60"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if n := api.PreferredWait(http.Header{"Prefer": {value, value}}); n < 0 || n > int(api.MaxWait/time.Second) {
			t.Errorf("%q gives %d", value, n)
		}
	})
}

func FuzzOnceHeaders(f *testing.F) {
	f.Add("g", "s", "0", "1", "a=1, b=2", "text/plain", "v")
	f.Add("", "", "x", "-1", "a=(1)", ";", "\xff")
	f.Add("ü", "s", "18446744073709551615", "01", "a;b=1", `a/b; c="d"`, "")
	f.Fuzz(func(t *testing.T, group, source, epoch, sequence, depends, contentType, own string) {
		h := http.Header{
			"Once-Group": {group}, "Once-Source": {source}, "Once-Epoch": {epoch}, "Once-Sequence": {sequence}, "Once-Depends-On": {depends},
			"Content-Type": {contentType}, "X-Own": {own}, "Authorization": {own},
		}
		m := record.Message{Stream: "s", ID: "1"}
		if err := api.ReadHeaders(h, &m); err != nil {
			return
		}
		if m.Group != group || m.Source != source || m.Sequence == 0 || len(m.DependsOn) == 0 || m.Headers["X-Own"] != own || len(m.Headers) != 1 {
			t.Errorf("%v gives %+v", h, m)
		}
		for source, n := range m.DependsOn {
			if source == "" || n == 0 {
				t.Errorf("%q gives %v", depends, m.DependsOn)
			}
		}
	})
}

func FuzzLogQuery(f *testing.F) {
	f.Add("after=1767323045000_0000000000000017&max=5&wait=20", "*/*", "")
	f.Add("after=now&wait=99999999999999999999", "text/event-stream", "1767323045000_0000000000000017")
	f.Add("max=0&after=%30", "application/json;q=0.1, text/*", "x")
	f.Add("after=1&after=2&;", ";q=", "\xff")
	f.Fuzz(func(t *testing.T, query, accept, last string) {
		const longest = 7 * time.Second
		after, limit, wait, err := api.ReadLogQuery(http.Header{"Accept": {accept}, "Last-Event-Id": {last}}, query, longest)
		if err != nil {
			return
		}
		if limit < 1 || limit > 10_000 || wait < 0 || wait > longest {
			t.Errorf("%q: at most %d entries, wait %v", query, limit, wait)
		}
		text := after.String()
		if after != (log.Offset{}) && text != last && url.QueryEscape(text) != text {
			t.Errorf("%q: after %s", query, text)
		}
		if got, err := log.ParseOffset(text); err != nil || got != after {
			t.Errorf("%q: after %s, which is %v, %v", query, text, got, err)
		}
	})
}
