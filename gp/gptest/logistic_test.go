package gptest_test

import "testing"

// The test that the example shows.
func TestLogisticNoise(t *testing.T) { testLogisticNoise(t) }
