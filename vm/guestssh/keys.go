// SPDX-License-Identifier: Apache-2.0

package guestssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// Keys are the two key pairs of one guest: both sides know each other by key
// and by nothing else, and the keys die with the guest. They live in memory
// and in the guest's initramfs, never in a file that an ssh client would have
// to be pointed at.
type Keys struct {
	Host   ssh.PublicKey // the guest's own
	Client ssh.Signer    // ours

	HostPrivatePEM []byte // for the guest: OpenSSH format
	AuthorizedKey  []byte // for the guest: one authorized_keys line
}

// NewKeys makes fresh ed25519 pairs.
func NewKeys() (Keys, error) {
	hostPub, hostPriv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("guest's host key: %w", err)
	}
	_, clientPriv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Keys{}, fmt.Errorf("guest's client key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(hostPriv, "patchcheck guest")
	if err != nil {
		return Keys{}, fmt.Errorf("guest's host key: %w", err)
	}
	client, err := ssh.NewSignerFromKey(clientPriv)
	if err != nil {
		return Keys{}, fmt.Errorf("guest's client key: %w", err)
	}
	host, err := ssh.NewPublicKey(hostPub)
	if err != nil {
		return Keys{}, fmt.Errorf("guest's host key: %w", err)
	}
	return Keys{
		Host:           host,
		Client:         client,
		HostPrivatePEM: pem.EncodeToMemory(block),
		AuthorizedKey:  ssh.MarshalAuthorizedKey(client.PublicKey()),
	}, nil
}
