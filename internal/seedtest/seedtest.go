// Package seedtest is for tests that leave something to chance. The environment variable BRAISE_TEST_SEED, a number,
// decides it, so that a failure can be repeated. The gate derives it from the files of the commit: two runs on one
// commit do the same, and other commits try other things.
package seedtest

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Variable is the name of the environment variable.
const Variable = "BRAISE_TEST_SEED"

// Seed is the number in [Variable]; 0 where it is not set.
var Seed = number(Variable)

// number reads an environment variable that is a number.
func number(variable string) uint64 {
	text := os.Getenv(variable)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", variable, err))
	}
	return n
}

// Part returns which of n parts of its work a test does that has no time for all of them: a number from 0 to n-1. It
// logs how to do the same again.
func Part(t testing.TB, n int) int {
	t.Helper()
	part := int(Seed % uint64(n))
	t.Logf("part %d of %d, by %s=%d", part, n, Variable, Seed)
	return part
}
