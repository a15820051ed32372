package scrape_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/scrape"
)

// TestTheAlertsAndTheDashboardUseMetricsThatExist looks for the metrics of expressions, and for the
// paragraphs that alerts link to.
func TestTheAlertsAndTheDashboardUseMetricsThatExist(t *testing.T) {
	known := []string{"once_queue_messages"}
	for _, name := range telemetry.Metrics() {
		series := scrape.Name(name)
		known = append(known, series, series+"_bucket")
	}
	used := map[string]bool{}
	check := func(where, expression string) {
		found := regexp.MustCompile(`once_[a-z_]+`).FindAllString(expression, -1)
		if len(found) == 0 && !strings.HasPrefix(expression, "up{") {
			t.Errorf("%s: no metric of once in %s", where, expression)
		}
		for _, name := range found {
			if used[name] = true; !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
	operations := string(file(t, "../../../docs/operations.md"))
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(file(t, "../../../packaging/prometheus/once.rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		check(r.Alert, r.Expr)
		_, anchor, linked := strings.Cut(r.Annotations["runbook_url"], "docs/operations.md#")
		if linked && !strings.Contains(strings.ToLower(operations), "\n### "+anchor+"\n") {
			t.Errorf("%s: operations.md has no paragraph %s", r.Alert, anchor)
		}
	}
	if len(rules.Groups[0].Rules) < 10 {
		t.Errorf("%d alerts", len(rules.Groups[0].Rules))
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(file(t, "../../../packaging/grafana/once.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	for _, name := range telemetry.Metrics() {
		series := scrape.Name(name)
		if !used[series] && !used[series+"_bucket"] {
			t.Errorf("neither an alert nor a panel shows %s", series)
		}
	}
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
