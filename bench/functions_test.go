package main

import (
	"testing"

	"github.com/effectively-once/once/bench/table"
)

func TestAFunctionsZipIsSmallAndItStartsOrSaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	environment, err := functionEnvironment(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources() {
		b, err := buildBootstrap(t.Context(), dir, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s MB, zip %s MB", b.Name, table.Digits(megabytes(b.Binary)), table.Digits(megabytes(b.Zip)))
		if megabytes(b.Zip) > zipAim {
			t.Errorf("the zip of %s is larger than %g MB", b.Name, zipAim)
		}
		if _, _, err := startOnce(t.Context(), b.path, environment); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
		collector := append(environment, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1")
		if _, _, err := startOnce(t.Context(), b.path, collector); s.folder != "linked" && s.folder != "hello" && err != nil {
			t.Errorf("%s with a collector: %v", b.Name, err)
		}
	}
}
