package deployed

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/telemetry"
)

const (
	// rateStep is the time of one value: CloudWatch keeps sums of a minute.
	rateStep = time.Minute
	// rateSteps is how many values a chart has.
	rateSteps = 15
	// ratesKept is how long rates are kept: a request costs money for each metric.
	ratesKept = time.Minute
)

// Rates are the charts of a stack, read from the metrics that its functions write. They are kept
// for a minute. They may be used concurrently.
type Rates struct {
	stack  *Stack
	client *call.Client
	now    func() time.Time

	mu        sync.Mutex
	namespace string // empty before it is known
	note      string // why there are no metrics, if that is known
	byStream  map[string]keptRates
}

type keptRates struct {
	rates console.Rates
	at    time.Time
}

// Rates returns the charts. It makes no call.
func (s *Stack) Rates(now func() time.Time) *Rates {
	return &Rates{stack: s, client: call.New(s.config, call.CloudWatch()), now: now, byStream: map[string]keptRates{}}
}

// ratesNote says from where the values are.
const ratesNote = "They are from CloudWatch, which has them one or two minutes later. The latency is that of accepting a message: the functions do not measure handlers."

// Of returns the charts of a stream, or of the whole system for the empty name. If CloudWatch does
// not answer, the charts are empty and their note says why.
func (r *Rates) Of(ctx context.Context, stream string) (console.Rates, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if k, ok := r.byStream[stream]; ok && now.Sub(k.at) < ratesKept {
		return k.rates, nil
	}
	rates, err := r.read(ctx, stream, now)
	if ctx.Err() != nil {
		return rates, ctx.Err()
	}
	if err != nil {
		rates.Note = "They are missing: " + err.Error()
	}
	r.byStream[stream] = keptRates{rates, now}
	return rates, nil
}

// A query is one line of a chart.
type query struct {
	chart, line, metric, stat string
	unit                      console.Unit
}

func queries() []query {
	return []query{
		{"accepted", "", telemetry.MetricAccepted, "Sum", console.PerSecond},
		{"done", "", telemetry.MetricProcessed, "Sum", console.PerSecond},
		{"failed", "", telemetry.MetricHandlerFailed, "Sum", console.PerSecond},
		{"dead letters", "", telemetry.MetricDeadLettered, "Sum", console.PerSecond},
		{"accepting", "p50", telemetry.MetricAcceptTime, "p50", console.Seconds},
		{"accepting", "p99", telemetry.MetricAcceptTime, "p99", console.Seconds},
	}
}

// read asks CloudWatch, and the process function for the namespace the first time.
func (r *Rates) read(ctx context.Context, stream string, now time.Time) (console.Rates, error) {
	out := console.Rates{Step: rateStep, Steps: rateSteps, Note: ratesNote}
	end := now.Truncate(rateStep)
	values := map[string][]float64{}
	err := r.known(ctx)
	if err == nil && r.note == "" {
		values, err = r.ask(ctx, stream, end)
	}
	if r.note != "" {
		out.Note = r.note
	}
	for i, q := range queries() {
		if n := len(out.Charts); n == 0 || out.Charts[n-1].Name != q.chart {
			out.Charts = append(out.Charts, console.Chart{Name: q.chart, Unit: q.unit})
		}
		c := &out.Charts[len(out.Charts)-1]
		c.Lines = append(c.Lines, console.Line{Name: q.line, Values: values[idOf(i)]})
	}
	return out, err
}

func idOf(i int) string { return fmt.Sprintf("q%d", i) }

// known finds the namespace of the metrics.
func (r *Rates) known(ctx context.Context) error {
	if r.namespace != "" {
		return nil
	}
	name, err := r.stack.processFunction(ctx)
	if err != nil {
		return err
	}
	f, err := r.stack.function(ctx, name)
	if err != nil {
		return err
	}
	r.namespace = telemetry.Namespace
	if n := f.environment[telemetry.EnvNamespace]; n != "" {
		r.namespace = n
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"} {
		if f.environment[variable] != "" {
			r.note = "There are none in CloudWatch: the functions send their metrics to the collector in " + variable + "."
		}
	}
	return nil
}

// ask returns the values of each query, in the order of time. No value of a sum means zero.
func (r *Rates) ask(ctx context.Context, stream string, end time.Time) (map[string][]float64, error) {
	begin := end.Add(-rateSteps * rateStep)
	form := url.Values{"StartTime": {begin.UTC().Format(time.RFC3339)}, "EndTime": {end.UTC().Format(time.RFC3339)}, "ScanBy": {"TimestampAscending"}}
	values, scales := map[string][]float64{}, map[string]float64{}
	for i, q := range queries() {
		q.addTo(form, i, r.namespace, stream)
		none, scale := 0.0, 1/rateStep.Seconds() // of a sum to a rate
		if q.unit == console.Seconds {
			none, scale = math.NaN(), 1
		}
		scales[idOf(i)] = scale
		for range rateSteps {
			values[idOf(i)] = append(values[idOf(i)], none)
		}
	}
	for more := true; more; more = form.Get("NextToken") != "" {
		var page struct {
			Results   []metricData `xml:"GetMetricDataResult>MetricDataResults>member"`
			NextToken string       `xml:"GetMetricDataResult>NextToken"`
		}
		if err := r.client.Form(ctx, "GetMetricData", form, &page); err != nil {
			return nil, fmt.Errorf("read metrics: %w", explain(err))
		}
		form.Set("NextToken", page.NextToken)
		for _, found := range page.Results {
			fill(values[found.ID], scales[found.ID], &found, begin)
		}
	}
	return values, nil
}

// A metricData is the answer to one query.
type metricData struct {
	ID         string      `xml:"Id"`
	Timestamps []time.Time `xml:"Timestamps>member"`
	Values     []float64   `xml:"Values>member"`
}

// addTo adds the query with an index to the parameters of GetMetricData.
func (q *query) addTo(form url.Values, i int, namespace, stream string) {
	prefix := fmt.Sprintf("MetricDataQueries.member.%d.", i+1)
	form.Set(prefix+"Id", idOf(i))
	prefix += "MetricStat."
	form.Set(prefix+"Period", fmt.Sprint(int(rateStep/time.Second)))
	form.Set(prefix+"Stat", q.stat)
	prefix += "Metric."
	form.Set(prefix+"Namespace", namespace)
	form.Set(prefix+"MetricName", q.metric)
	if stream != "" {
		form.Set(prefix+"Dimensions.member.1.Name", telemetry.Dimension)
		form.Set(prefix+"Dimensions.member.1.Value", stream)
	}
}

// fill sets the values of one line.
func fill(values []float64, scale float64, found *metricData, begin time.Time) {
	for i, at := range found.Timestamps {
		if n := int(at.Sub(begin) / rateStep); n >= 0 && n < len(values) && i < len(found.Values) {
			values[n] = scale * found.Values[i]
		}
	}
}
