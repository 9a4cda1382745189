package serve

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The counts are in the text format of Prometheus: each metric has its help and type
// before its samples, buckets grow, and the last one is the count.
func TestMetrics(t *testing.T) {
	s := NewServer(nil)
	for range 3 {
		ask(s, "GET", "/healthz", "", "")
	}
	ask(s, "GET", "/%3Cb%3E%22%0A", "", "")
	ask(s, "POST", "/v1/predict", "", "")
	s.counts.add("/v1/predict", 200, 70*time.Millisecond)
	s.counts.add("/v1/predict", 200, time.Hour)
	w := ask(s, "GET", "/metrics", "", "")
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	text := w.Body.String()
	require.True(t, strings.HasSuffix(text, "\n"))
	sample := regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? ([-+0-9.eE]+)$`)
	typed, values := map[string]string{}, map[string]float64{}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if f := strings.Fields(line); f[0] == "#" {
			require.Contains(t, []string{"HELP", "TYPE"}, f[1])
			if f[1] == "TYPE" {
				require.NotContains(t, typed, f[2])
				typed[f[2]] = f[3]
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		name := m[1]
		for _, end := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, end); ok && typed[base] == "histogram" {
				name = base
			}
		}
		require.Contains(t, typed, name, "samples come after the type")
		v, err := strconv.ParseFloat(m[4], 64)
		require.NoError(t, err)
		values[m[1]+m[2]] = v
	}
	require.EqualValues(t, 3, values[`gpexplain_requests_total{path="/healthz",code="200"}`])
	require.EqualValues(t, 1, values[`gpexplain_requests_total{path="other",code="404"}`])
	require.EqualValues(t, 1, values[`gpexplain_requests_total{path="/v1/predict",code="503"}`])
	require.EqualValues(t, 1, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="0.05"}`])
	require.EqualValues(t, 2, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="0.1"}`])
	require.EqualValues(t, 2, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="30"}`])
	require.EqualValues(t, 3, values[`gpexplain_request_seconds_bucket{path="/v1/predict",le="+Inf"}`])
	require.EqualValues(t, 3, values[`gpexplain_request_seconds_count{path="/v1/predict"}`])
	require.InDelta(t, 3600.07, values[`gpexplain_request_seconds_sum{path="/v1/predict"}`], .1)
	require.Contains(t, values, "gpexplain_ready")
}
