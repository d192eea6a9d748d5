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

// What waits for people, in this process and all others: the list is read again whenever something has changed.
func ExampleStore_Watch() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, "postgres://app@db.example/app?sslmode=verify-full", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	changed := make(chan struct{}, 1)
	go store.Watch(ctx, func(string) {
		select {
		case changed <- struct{}{}:
		default: // it is about to be read
		}
	})
	for range changed {
		pauses, err := store.Pauses(ctx, checkpoint.PauseFilter{Expiring: true, Limit: 20})
		for _, p := range pauses {
			fmt.Println(p.Summary.ID, p.Pause.ID, p.Opened.Data)
		}
		if err != nil {
			log.Print(err)
		}
	}
}
