package stacktest

import (
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// A Metric names the values of a metric: namespace, name, stream and statistic, with slashes
// between them. The stream is empty for the whole system.
type Metric string

// A Value is the value of a metric for the minute that begins at a time.
type Value struct {
	At    time.Time
	Value float64
}

// metricsPath is the path of GetMetricData in the protocol of the SDK, which is CBOR.
const metricsPath = "/service/GraniteServiceVersion20100801/operation/GetMetricData"

// metrics answers GetMetricData of CloudWatch.
func (a *AWS) metrics(w http.ResponseWriter, r *http.Request) {
	a.MetricCalls++
	w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
	w.Header().Set("Content-Type", "application/cbor")
	if a.Metrics == nil {
		w.WriteHeader(http.StatusForbidden)
		_ = cbor.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.cloudwatch#AccessDeniedException", "message": "not authorized to perform: cloudwatch:GetMetricData"})
		return
	}
	var in struct {
		MetricDataQueries []struct {
			ID         string `cbor:"Id"`
			MetricStat struct {
				Metric struct {
					Namespace, MetricName string
					Dimensions            []struct{ Name, Value string }
				}
				Stat string
			}
		}
	}
	if err := cbor.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	results := []map[string]any{}
	for _, q := range in.MetricDataQueries {
		stream := ""
		for _, d := range q.MetricStat.Metric.Dimensions {
			stream = d.Value
		}
		times, values := []cbor.Tag{}, []float64{}
		for _, v := range a.Metrics[Metric(q.MetricStat.Metric.Namespace+"/"+q.MetricStat.Metric.MetricName+"/"+stream+"/"+q.MetricStat.Stat)] {
			times, values = append(times, cbor.Tag{Number: 1, Content: v.At.Unix()}), append(values, v.Value)
		}
		results = append(results, map[string]any{"Id": q.ID, "Timestamps": times, "Values": values, "StatusCode": "Complete"})
	}
	// an error means that the client has disconnected
	_ = cbor.NewEncoder(w).Encode(map[string]any{"MetricDataResults": results})
}
