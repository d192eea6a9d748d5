package postgres_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/postgres"
)

// The runs that something is due for, in a schema of the application's own.
func ExampleOpen() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, "postgres://app@db.example/app?sslmode=verify-full", &postgres.Options{Schema: "app_runs"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	due, err := store.List(ctx, checkpoint.Filter{DueBefore: time.Now()})
	if err != nil {
		log.Fatal(err)
	}
	for _, run := range due {
		fmt.Println(run.ID, run.Recipe, run.Due())
	}
}
