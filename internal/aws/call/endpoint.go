package call

import (
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// endpointOf returns the endpoint of a service in the settings, or nil, as the SDK's clients do: an
// AWS_ENDPOINT_URL of the environment takes precedence over files.
func endpointOf(cfg aws.Config, id string) *string {
	_, general := os.LookupEnv("AWS_ENDPOINT_URL")
	_, own := os.LookupEnv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(id), " ", "_"))
	if general && !own {
		return cfg.BaseEndpoint
	}
	for _, source := range cfg.ConfigSources {
		s, ok := source.(interface {
			GetIgnoreConfiguredEndpoints(ctx context.Context) (bool, bool, error)
		})
		if !ok {
			continue
		}
		if ignore, found, err := s.GetIgnoreConfiguredEndpoints(context.Background()); err == nil && found {
			if ignore {
				return cfg.BaseEndpoint
			}
			break
		}
	}
	for _, source := range cfg.ConfigSources {
		s, ok := source.(interface {
			GetServiceBaseEndpoint(ctx context.Context, id string) (string, bool, error)
		})
		if !ok {
			continue
		}
		if value, found, err := s.GetServiceBaseEndpoint(context.Background(), id); err == nil && found {
			return &value
		}
	}
	return cfg.BaseEndpoint
}

// address returns the endpoint of the service. Its domain is that of SQS, so that the SDK keeps the
// table of partitions.
func (c *Client) address(ctx context.Context) (*url.URL, error) {
	if c.endpoint != nil {
		return url.Parse(*c.endpoint)
	}
	fips, dual := c.options.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled, c.options.EndpointOptions.UseDualStackEndpoint == aws.DualStackEndpointStateEnabled
	dual = dual && !c.service.OneDomain
	found, err := sqs.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, sqs.EndpointParameters{Region: &c.options.Region, UseFIPS: &fips, UseDualStack: &dual})
	if err != nil {
		return nil, err
	}
	address := found.URI
	_, domain, _ := strings.Cut(address.Host, ".")
	gov := strings.HasPrefix(c.options.Region, "us-gov-")
	if own := c.service.Gov == GovAlways || c.service.Gov == GovIPv6 && dual; fips && (!gov || own) {
		address.Host = c.service.Host + "-fips." + domain
	} else {
		address.Host = c.service.Host + "." + domain
	}
	return &address, nil
}
