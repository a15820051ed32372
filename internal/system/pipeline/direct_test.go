package pipeline

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A handler in code sends to any destination, unless its stream declares some.
func TestAStreamIsDirectByDefaultIfItsHandlerCanSendToLocalDestinationsOnly(t *testing.T) {
	t.Setenv("SHOP_SECRET", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0")
	w := newWorld(t)
	handler := func(context.Context, *record.Attempt, record.Message) error { return nil }
	p, err := New(Config{
		Config: parsed(t, `
streams:
  local:  {destinations: [ledger]}
  remote: {destinations: [ledger, shop]}
  off:    {destinations: [ledger], direct: false}
  on:     {destinations: [shop], direct: true}
  silent: {}
  coded:  {destinations: [ledger]}
destinations:
  ledger: {file: ledger.jsonl}
  shop:   {webhook: "https://shop.example/hook", secret: "env:SHOP_SECRET"}
`),
		Declared: []system.Stream{{Stream: record.Stream{Name: "coded", Handler: handler}}, {Stream: record.Stream{Name: "free", Handler: handler}}},
		Store:    memstore.New(w.clock), Ports: w.ports(), Open: opener(&ledger{}), Trusted: []string{"me"}, Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	local := func(d config.Destination) bool { return d.Kind() == config.KindFile }
	want := map[string]bool{"local": true, "remote": false, "off": false, "on": true, "silent": true, "coded": true, "free": false}
	if d := cmp.Diff(want, p.Direct(local)); d != "" {
		t.Errorf("direct streams (-want +got):\n%s", d)
	}
	for name, direct := range p.Direct(nil) {
		if direct != (name == "on") {
			t.Errorf("%s without local destinations: %v", name, direct)
		}
	}
}

func declaredAs(s record.Stream, ordered bool) system.Stream {
	return system.Stream{Stream: s, Ordered: ordered}
}

func TestCodeThatOrdersAStreamIsComparedWithItsSettingDirect(t *testing.T) {
	c := parsed(t, "streams: {loose: {order: none, direct: true}, numbered: {admission: sequence, direct: true}}\n")
	for name, x := range map[string]struct {
		declared system.Stream
		refused  bool
	}{
		"nothing declared":       {declaredAs(record.Stream{Name: "loose"}, false), false},
		"ordered":                {declaredAs(record.Stream{Name: "loose"}, true), true},
		"numbered":               {declaredAs(record.Stream{Name: "loose", Admission: record.BySequence}, true), false},
		"by key, not by numbers": {declaredAs(record.Stream{Name: "numbered", Admission: record.ByKey}, false), true},
	} {
		if err := CheckDirect(c, []system.Stream{x.declared}); (err != nil) != x.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
