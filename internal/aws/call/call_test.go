package call_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/aws/call"
)

// hosts keeps the hosts of requests, and answers them.
type hosts []string

func (h *hosts) Do(r *http.Request) (*http.Response, error) {
	*h = append(*h, r.URL.Host)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// environment sets variables, and hides the settings of the machine.
func environment(t *testing.T, variables ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	for _, v := range append([]string{
		"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_PROFILE=", "AWS_EC2_METADATA_DISABLED=true", "AWS_CA_BUNDLE=",
	}, variables...) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// The hosts are those of the SDK's clients. The first row names all services.
func TestEndpointsAreThoseOfTheSDK(t *testing.T) {
	for _, c := range []struct {
		service   call.Service
		variables string // with the region first
		want      string
	}{
		{call.CloudFormation(), "us-east-1", "cloudformation.us-east-1.amazonaws.com"},
		{call.CloudWatch(), "us-east-1", "monitoring.us-east-1.amazonaws.com"},
		{call.Logs(), "us-east-1", "logs.us-east-1.amazonaws.com"},
		{call.EventBridge(), "us-east-1", "events.us-east-1.amazonaws.com"},
		{call.Lambda(), "us-east-1", "lambda.us-east-1.amazonaws.com"},
		{call.SecretsManager(), "us-east-1", "secretsmanager.us-east-1.amazonaws.com"},
		{call.SNS(), "us-east-1", "sns.us-east-1.amazonaws.com"},
		{call.SSM(), "us-east-1", "ssm.us-east-1.amazonaws.com"},
		{call.SSM(), "cn-north-1", "ssm.cn-north-1.amazonaws.com.cn"},
		{call.SSM(), "eusc-de-east-1", "ssm.eusc-de-east-1.amazonaws.eu"},
		{call.SSM(), "us-east-1 AWS_USE_FIPS_ENDPOINT=true", "ssm-fips.us-east-1.amazonaws.com"},
		{call.SSM(), "us-east-1 AWS_USE_DUALSTACK_ENDPOINT=true", "ssm.us-east-1.api.aws"},
		{call.SSM(), "us-east-1 AWS_USE_DUALSTACK_ENDPOINT=true AWS_USE_FIPS_ENDPOINT=true", "ssm-fips.us-east-1.api.aws"},
		{call.SecretsManager(), "us-east-1 AWS_USE_DUALSTACK_ENDPOINT=true", "secretsmanager.us-east-1.amazonaws.com"},
		{call.SSM(), "us-gov-west-1 AWS_USE_FIPS_ENDPOINT=true", "ssm.us-gov-west-1.amazonaws.com"},
		{call.SSM(), "us-gov-west-1 AWS_USE_FIPS_ENDPOINT=true AWS_USE_DUALSTACK_ENDPOINT=true", "ssm-fips.us-gov-west-1.api.aws"},
		{call.EventBridge(), "us-gov-west-1 AWS_USE_FIPS_ENDPOINT=true AWS_USE_DUALSTACK_ENDPOINT=true", "events.us-gov-west-1.api.aws"},
		{call.Lambda(), "us-gov-west-1 AWS_USE_FIPS_ENDPOINT=true", "lambda-fips.us-gov-west-1.amazonaws.com"},
		{call.SSM(), "us-east-1 AWS_ENDPOINT_URL=http://all:1", "all:1"},
		{call.SSM(), "us-east-1 AWS_ENDPOINT_URL=http://all:1 AWS_ENDPOINT_URL_SSM=http://own:2", "own:2"},
		{call.SecretsManager(), "us-east-1 AWS_ENDPOINT_URL_SECRETS_MANAGER=http://own:2", "own:2"},
		{call.Logs(), "us-east-1 AWS_ENDPOINT_URL_CLOUDWATCH_LOGS=http://own:2", "own:2"},
		{call.SSM(), "us-east-1 AWS_ENDPOINT_URL_SSM=http://own:2 AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", "ssm.us-east-1.amazonaws.com"},
	} {
		t.Run(c.service.ID+" "+c.variables, func(t *testing.T) {
			environment(t, strings.Fields("AWS_REGION="+c.variables)...)
			var asked hosts
			cfg, err := awsconfig.Load(t.Context(), config.WithHTTPClient(&asked))
			if err != nil {
				t.Fatal(err)
			}
			if err := call.New(cfg, c.service).JSON(t.Context(), "Do", struct{}{}, nil); err != nil || len(asked) != 1 || asked[0] != c.want {
				t.Errorf("asked %q, %v, want %s", asked, err, c.want)
			}
		})
	}
}

// serve returns a client of a server.
func serve(t *testing.T, s call.Service, answer http.HandlerFunc) *call.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return call.New(aws.Config{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL + "/base/"), Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "token"), AppID: "shop",
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			})
		},
	}, s)
}

func TestARequestIsSignedForItsServiceAndRegion(t *testing.T) {
	var got *http.Request
	var body []byte
	c := serve(t, call.SecretsManager(), func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"SecretString":"s"}`)
	})
	var out struct{ SecretString string }
	if err := c.In("eu-west-1").JSON(t.Context(), "GetSecretValue", map[string]any{"SecretId": "a<b"}, &out); err != nil || out.SecretString != "s" {
		t.Fatalf("%+v, %v", out, err)
	}
	h := got.Header
	if !strings.Contains(h.Get("Authorization"), "/eu-west-1/secretsmanager/aws4_request") || h.Get("X-Amz-Security-Token") != "token" || h.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" {
		t.Errorf("headers %v", h)
	}
	if agent := h.Get("User-Agent"); !strings.Contains(agent, "api/secretsmanager#once") || !strings.Contains(agent, "app/shop") {
		t.Errorf("agent %s", agent)
	}
	if got.URL.Path != "/base/" || got.Method != http.MethodPost || !strings.Contains(string(body), `"SecretId":"a`) || got.ContentLength != int64(len(body)) {
		t.Errorf("%s %s with %d bytes: %s", got.Method, got.URL, got.ContentLength, body)
	}
}

func TestACallIsRepeatedAsTheSDKDoesIt(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		calls  int
	}{
		"overloaded": {http.StatusServiceUnavailable, "", 3},
		"throttled":  {http.StatusBadRequest, `{"__type":"com.amazonaws#ThrottlingException","message":"slower"}`, 3},
		"refused":    {http.StatusBadRequest, `{"__type":"ValidationException","message":"no"}`, 1},
	} {
		calls := 0
		client := serve(t, call.EventBridge(), func(w http.ResponseWriter, r *http.Request) {
			calls++
			if body, _ := io.ReadAll(r.Body); string(body) != `"in"` {
				t.Errorf("%s: try %d has the body %s", name, calls, body)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		if err := client.JSON(t.Context(), "PutEvents", "in", nil); err == nil || calls != c.calls {
			t.Errorf("%s: %d calls, want %d: %v", name, calls, c.calls, err)
		}
	}
}

func TestErrorsOfAllProtocolsHaveCodeMessageAndRequest(t *testing.T) {
	const form = `<ErrorResponse><Error><Type>Sender</Type><Code>Bad</Code><Message>too long</Message></Error><RequestId>r</RequestId></ErrorResponse>`
	for name, c := range map[string]struct {
		header, body, code, message string
		status                      int
	}{
		"JSON":           {"", `{"__type":"com.amazonaws.ssm#Bad","message":"too long"}`, "Bad", "too long", 400},
		"JSON, capital":  {"", `{"__type":"Bad","Message":"too long"}`, "Bad", "too long", 400},
		"REST":           {"Bad:http://internal", `{"Type":"User","Message":"too long"}`, "Bad", "too long", 404},
		"REST, no text":  {"Bad", "", "Bad", "", 404},
		"query":          {"", form, "Bad", "too long", 400},
		"of a proxy":     {"", "<html>away</html>", "UnknownError", "Forbidden", 403},
		"without a body": {"", "", "UnknownError", "Bad Request", 400},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, call.SNS(), func(w http.ResponseWriter, _ *http.Request) {
				if c.header != "" {
					w.Header().Set("X-Amzn-Errortype", c.header)
				}
				w.Header().Set("X-Amzn-Requestid", "req-1")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			err := client.Form(t.Context(), "PublishBatch", url.Values{}, nil)
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != c.code || api.ErrorMessage() != c.message {
				t.Fatalf("got %v, want %s: %s", err, c.code, c.message)
			}
			if want := fmt.Sprintf("operation error SNS: PublishBatch, https response error StatusCode: %d, RequestID: req-1, api error %s: %s", c.status, c.code, c.message); err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestAnAnswerThatIsNotReadableIsAnError(t *testing.T) {
	client := serve(t, call.SSM(), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	var out struct{}
	if err := client.JSON(t.Context(), "GetParameter", struct{}{}, &out); err == nil || !strings.Contains(err.Error(), "operation error SSM: GetParameter") {
		t.Errorf("got %v", err)
	}
	large := serve(t, call.SSM(), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, call.MaxResponse+1)) })
	if _, err := large.Do(t.Context(), call.Request{Operation: "Get", Method: http.MethodGet, Path: "/"}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	client := serve(t, call.SSM(), func(http.ResponseWriter, *http.Request) { close(arrived); <-release })
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if err := client.JSON(ctx, "GetParameter", struct{}{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
