package apigw_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/effectively-once/once/internal/front/apigw"
)

// FuzzEvent serves any event. Either it is an error and the handler is not called, or the handler
// gets a complete request and its answer can be written as JSON.
func FuzzEvent(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no events", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "null", "[]", `{"httpMethod":"POST","path":"%zz","isBase64Encoded":true,"body":"!"}`, `{"version":"2.0","rawPath":"//x","requestContext":{"stage":"/"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		served := 0
		answer, err := apigw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			body, err := io.ReadAll(r.Body)
			if err != nil || int64(len(body)) != r.ContentLength || r.URL == nil || r.Header.Get("Host") != "" {
				t.Errorf("%d bytes of %d, %v, URL %v", len(body), r.ContentLength, err, r.URL)
			}
			_, _ = apigw.Principal(r) // any result is allowed, but no panic
			_, _ = w.Write(body)      // to a recorder
		}))(t.Context(), event)
		if (err == nil) != (served == 1) {
			t.Fatalf("served %d times: %v", served, err)
		}
		if _, bad := json.Marshal(answer); bad != nil {
			t.Fatal(bad)
		}
	})
}
