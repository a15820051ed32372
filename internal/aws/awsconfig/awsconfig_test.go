package awsconfig_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/awsconfig"
)

// A server answers each second try, and keeps the bodies that it was sent.
type server struct {
	bodies []io.ReadCloser
	sent   []string
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.bodies, s.sent = append(s.bodies, r.Body), append(s.sent, string(sent))
	if len(s.sent)%2 == 1 {
		return nil, syscall.ECONNRESET
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

func atOnce() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

func TestABodyThatIsClosedEarlyIsNoFailedWrite(t *testing.T) {
	for name, call := range map[string]func(aws.Config) error{
		"dynamodb": func(cfg aws.Config) error {
			_, err := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }).ListTables(t.Context(), &dynamodb.ListTablesInput{})
			return err
		},
		"sqs": func(cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).ListQueues(t.Context(), &sqs.ListQueuesInput{QueueNamePrefix: aws.String("orders")})
			return err
		},
		"s3": func(cfg aws.Config) error {
			// Without TLS the sum of a body is in the head, and the body is sent as it is.
			_, err := s3.NewFromConfig(cfg, func(o *s3.Options) { o.BaseEndpoint = aws.String("http://localhost") }).PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("k"), Body: bytes.NewReader([]byte("v"))})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			cfg, err := awsconfig.Load(t.Context(), config.WithRegion("eu-west-1"), config.WithRetryer(atOnce),
				config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("key", "secret", "")))
			if err != nil {
				t.Fatal(err)
			}
			cfg.HTTPClient = s
			if err := call(cfg); err != nil {
				t.Fatal(err)
			}
			if len(s.sent) != 2 || s.sent[0] == "" || s.sent[0] != s.sent[1] {
				t.Errorf("sent %q, want the same twice", s.sent)
			}
			for i, body := range s.bodies {
				if _, err := io.Copy(io.Discard, body); err != nil {
					t.Errorf("try %d: the end of a closed body is %v, want no error", i+1, err)
				}
			}
		})
	}
}
