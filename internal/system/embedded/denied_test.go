package embedded_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/effectively-once/once/internal/system/embedded"
)

// TestRefusedRequestsAreCountedByTheirReason counts them for Prometheus and for a provider of
// OpenTelemetry.
func TestRefusedRequestsAreCountedByTheirReason(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	text := strings.NewReplacer("admin: {", `admin: {listen: "127.0.0.1:0", `, "  console: write", "  console: write\n  rate: {perSecond: 1, burst: 4}").Replace(closedShop)
	s := serve(t, text, func(o *embedded.Options, s *served) {
		o.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		s.file("keys", "ann "+annKey+"\nbob "+bobKey+" chat\neve eve-0123456789abcdef\n")
	})
	operators := regexp.MustCompile(`ready for operators" url=http://(\S+)`).FindStringSubmatch(s.log.String())
	if operators == nil {
		t.Fatalf("the log does not name the address for operators:\n%s", s.log.String())
	}
	groups := "/v1/streams/orders/groups"
	s.want("no key", s.call("GET", groups, ""), 401)
	s.want("an unknown key", s.call("GET", groups, "", "X-Api-Key: nobody"), 401)
	s.want("the console", s.call("GET", "/console", ""), 401)
	other := *s
	other.running = &running{System: s.System, address: operators[1], http: s.http}
	s.want("the admin API", other.call("GET", "/admin/v1/stats", ""), 401)
	s.want("the address of operators", other.call("GET", groups, ""), 401)
	s.want("another stream", s.call("GET", groups, "", asBob), 403)
	s.want("the metrics", s.call("GET", "/metrics", "", asBob), 403)
	s.want("SQS", s.call("POST", "/", "{}", "X-Amz-Target: AmazonSQS.SendMessage"), 403)
	s.want("another host", s.call("GET", groups, "", asAnn, "Host: evil.example.com"), 403)
	s.want("another origin", s.call("POST", groups, "", asAnn, "Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site"), 403)
	limited := 0
	for range 100 { // the bucket gets one token in a second
		if s.call("GET", groups, "", "X-Api-Key: eve-0123456789abcdef").status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		t.Error("no request of 100 was limited")
	}
	want := map[string]int{"unauthorized": 2, "operator": 3, "forbidden": 2, "sqs": 1, "host": 1, "origin": 1, "rate-limited": limited}
	page := s.call("GET", "/metrics", "", asAnn)
	for reason, n := range want {
		s.want("the metrics", page, 200, fmt.Sprintf("once_denied_total{reason=%q} %d\n", reason, n))
	}
	if n := strings.Count(page.body, "once_denied_total{"); n != len(want) {
		t.Errorf("%d series of denied requests, want %d:\n%s", n, len(want), page.body)
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, scope := range found.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[float64])
			if !ok || m.Name != "once.denied" {
				continue
			}
			for _, p := range sum.DataPoints {
				reason, _ := p.Attributes.Value("reason")
				if p.Attributes.Len() != 1 {
					t.Errorf("a series has the attributes %v, want the reason only", p.Attributes.ToSlice())
				}
				got[reason.AsString()] = int(p.Value)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("OpenTelemetry has %v, want %v", got, want)
	}
}
