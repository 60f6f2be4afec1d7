------------------------------ MODULE Redlock ------------------------------
(* Leases over independent nodes: acquire, decide, extend, release, fencing  *)
(* tokens, and nodes that forget (R1 to R4, R6 and R9 of docs/design.md).    *)
(*                                                                          *)
(* Time is discrete. All clocks agree, so the drift is zero, and a validity  *)
(* is as long as a TTL. Messages are a set: they are delivered in any order, *)
(* any number of times, or never. A lease is one attempt, and has one nonce, *)
(* which here is its own name.                                               *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Nodes,      \* the voters
    Leases,     \* attempts to hold the one resource
    TTL,        \* ticks for which a node stores a key
    MaxTime,    \* the last tick that is explored
    MaxCrashes, \* how many nodes may lose their data
    MaxRaises   \* rounds of raise in an attempt

ASSUME TTL \in Nat /\ TTL > 0 /\ MaxTime \in Nat /\ MaxCrashes \in Nat

Quorums == {Q \in SUBSET Nodes : 2 * Cardinality(Q) > Cardinality(Nodes)}
(* N - q + 1 nodes: every such set shares a node with every quorum. *)
Witnesses(n) ==
    {W \in SUBSET (Nodes \ {n}) : \A Q \in Quorums : W \cap Q # {}}
None == "none"
Max(S) == CHOOSE x \in S : \A y \in S : y <= x

VARIABLES
    now,      \* the present tick
    key,      \* key[n]: the lease whose key the node stores, and its end
    fence,    \* fence[n]: the highest token that the node accepted
    votes,    \* votes[n]: whether the node votes
    forgot,   \* forgot[n]: when it lost its data
    crashes,  \* how many nodes lost their data
    phase,    \* phase[l]: "new", "acquiring", "held", "over"
    started,  \* started[l]: the start of the attempt
    until,    \* until[l]: the end of the validity
    round,    \* round[l]: 0 for the proposal, then the raises
    number,   \* number[l]: the token of the present round
    token,    \* token[l]: the token of a held lease
    before,   \* before[l]: the greatest token completed before the attempt
    requests, \* messages to nodes
    answers   \* messages from nodes

vars == <<now, key, fence, votes, forgot, crashes, phase, started, until, round,
          number, token, before, requests, answers>>

NoKey == [lease |-> None, end |-> 0]
Stored(n) == IF now < key[n].end THEN key[n] ELSE NoKey
Completed == {token[l] : l \in Leases}

Init ==
    /\ now = 0
    /\ key = [n \in Nodes |-> NoKey]
    /\ fence = [n \in Nodes |-> 0]
    /\ votes = [n \in Nodes |-> TRUE]
    /\ forgot = [n \in Nodes |-> 0]
    /\ crashes = 0
    /\ phase = [l \in Leases |-> "new"]
    /\ started = [l \in Leases |-> 0]
    /\ until = [l \in Leases |-> 0]
    /\ round = [l \in Leases |-> 0]
    /\ number = [l \in Leases |-> 0]
    /\ token = [l \in Leases |-> 0]
    /\ before = [l \in Leases |-> 0]
    /\ requests = {}
    /\ answers = {}

Tick ==
    /\ now < MaxTime
    /\ now' = now + 1
    /\ UNCHANGED <<key, fence, votes, forgot, crashes, phase, started, until,
                   round, number, token, before, requests, answers>>

(* R1: ask all nodes at once. The token proposed is the same for all that    *)
(* start at one tick, as if clients had no common memory.                    *)
Start(l) ==
    /\ phase[l] = "new"
    /\ phase' = [phase EXCEPT ![l] = "acquiring"]
    /\ started' = [started EXCEPT ![l] = now]
    /\ until' = [until EXCEPT ![l] = now + TTL]
    /\ number' = [number EXCEPT ![l] = 1]
    /\ before' = [before EXCEPT ![l] = Max(Completed)]
    /\ requests' = requests \cup
         {[type |-> "acquire", node |-> n, lease |-> l, round |-> 0,
           number |-> 1, deadline |-> now + TTL] : n \in Nodes}
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, round, token, answers>>

(* A node stores the key if it is free, and accepts the number if it is      *)
(* above its fence. It runs nothing after the deadline of the request.       *)
RunAcquire(m) ==
    /\ m.type = "acquire"
    /\ votes[m.node] /\ now < m.deadline
    /\ IF Stored(m.node).lease \in {None, m.lease}
       THEN /\ key' = [key EXCEPT ![m.node] =
                         [lease |-> m.lease, end |-> now + TTL]]
            /\ fence' = [fence EXCEPT ![m.node] = Max({@, m.number})]
            /\ answers' = answers \cup
                 {[type |-> "granted", node |-> m.node, lease |-> m.lease,
                   round |-> 0, accepted |-> m.number > fence[m.node],
                   fence |-> fence[m.node], start |-> started[m.lease]]}
       ELSE /\ answers' = answers \cup
                 {[type |-> "held", node |-> m.node, lease |-> m.lease,
                   round |-> 0, accepted |-> FALSE,
                   fence |-> fence[m.node], start |-> started[m.lease]]}
            /\ UNCHANGED <<key, fence>>
    /\ UNCHANGED <<now, votes, forgot, crashes, phase, started, until, round,
                   number, token, before, requests>>

(* R9: a number above every fence seen, to the nodes that granted. *)
RunRaise(m) ==
    /\ m.type = "raise"
    /\ votes[m.node]
    /\ Stored(m.node).lease = m.lease
    /\ fence' = [fence EXCEPT ![m.node] = Max({@, m.number})]
    /\ answers' = answers \cup
         {[type |-> "raised", node |-> m.node, lease |-> m.lease,
           round |-> m.round, accepted |-> m.number > fence[m.node],
           fence |-> fence[m.node], start |-> started[m.lease]]}
    /\ UNCHANGED <<now, key, votes, forgot, crashes, phase, started, until, round,
                   number, token, before, requests>>

(* R4: a node that lost the key stores it again, but not after the end of    *)
(* the validity that the request was sent in.                                *)
RunExtend(m) ==
    /\ m.type = "extend"
    /\ votes[m.node]
    /\ Stored(m.node).lease \in {None, m.lease}
    /\ (Stored(m.node).lease = m.lease \/ now < m.deadline)
    /\ key' = [key EXCEPT ![m.node] = [lease |-> m.lease, end |-> now + TTL]]
    /\ answers' = answers \cup
         {[type |-> "extended", node |-> m.node, lease |-> m.lease,
           round |-> 0, accepted |-> FALSE, fence |-> 0, start |-> m.number]}
    /\ UNCHANGED <<now, fence, votes, forgot, crashes, phase, started, until,
                   round, number, token, before, requests>>

(* R3: a release compares the nonce. *)
RunRelease(m) ==
    /\ m.type = "release"
    /\ Stored(m.node).lease = m.lease
    /\ key' = [key EXCEPT ![m.node] = NoKey]
    /\ UNCHANGED <<now, fence, votes, forgot, crashes, phase, started, until,
                   round, number, token, before, requests, answers>>

Run == \E m \in requests :
    RunAcquire(m) \/ RunRaise(m) \/ RunExtend(m) \/ RunRelease(m)

Granting(l) == {a.node : a \in {b \in answers : b.lease = l /\ b.type = "granted"}}
Accepting(l, r) ==
    {a.node : a \in {b \in answers :
        b.lease = l /\ b.accepted /\ b.round = r /\ b.type \in {"granted", "raised"}}}

(* R1: held with a quorum inside the validity that began with the attempt.   *)
(* Acceptances of different numbers are never added up.                      *)
Hold(l) ==
    /\ phase[l] = "acquiring"
    /\ now < until[l]
    /\ Accepting(l, round[l]) \cap Granting(l) \in Quorums
    /\ phase' = [phase EXCEPT ![l] = "held"]
    /\ token' = [token EXCEPT ![l] = number[l]]
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, started, until, round,
                   number, before, requests, answers>>

Raise(l) ==
    /\ phase[l] = "acquiring"
    /\ round[l] < MaxRaises
    /\ Granting(l) \in Quorums
    /\ LET seen == {a.fence : a \in {b \in answers : b.lease = l}}
           next == Max(seen \cup {number[l]}) + 1
       IN /\ number' = [number EXCEPT ![l] = next]
          /\ requests' = requests \cup
               {[type |-> "raise", node |-> n, lease |-> l,
                 round |-> round[l] + 1, number |-> next, deadline |-> 0] :
                  n \in Granting(l)}
    /\ round' = [round EXCEPT ![l] = @ + 1]
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, phase, started, until,
                   token, before, answers>>

(* R4: a round of renewal begins; its number is its start. *)
Extend(l) ==
    /\ phase[l] = "held" /\ now < until[l]
    /\ requests' = requests \cup
         {[type |-> "extend", node |-> n, lease |-> l, round |-> 0,
           number |-> now, deadline |-> until[l]] : n \in Nodes}
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, phase, started, until,
                   round, number, token, before, answers>>

(* A quorum stores the key since `start` at the earliest: the validity       *)
(* counts from there. A lease past its end is never revived.                 *)
Renew(l) ==
    /\ phase[l] = "held" /\ now < until[l]
    /\ \E start \in 0..now :
         /\ {a.node : a \in {b \in answers :
               /\ b.lease = l
               /\ b.type \in {"granted", "extended"}
               /\ b.start >= start}} \in Quorums
         /\ start + TTL > until[l]
         /\ until' = [until EXCEPT ![l] = start + TTL]
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, phase, started, round,
                   number, token, before, requests, answers>>

(* R2 and R3: at any time; the release goes to every node. *)
End(l) ==
    /\ phase[l] \in {"acquiring", "held"}
    /\ phase' = [phase EXCEPT ![l] = "over"]
    /\ requests' = requests \cup
         {[type |-> "release", node |-> n, lease |-> l, round |-> 0,
           number |-> 0, deadline |-> 0] : n \in Nodes}
    /\ UNCHANGED <<now, key, fence, votes, forgot, crashes, started, until, round,
                   number, token, before, answers>>

(* R6: a node that lost its data does not vote ... *)
Crash(n) ==
    /\ crashes < MaxCrashes
    /\ votes[n]
    /\ crashes' = crashes + 1
    /\ votes' = [votes EXCEPT ![n] = FALSE]
    /\ forgot' = [forgot EXCEPT ![n] = now]
    /\ key' = [key EXCEPT ![n] = NoKey]
    /\ fence' = [fence EXCEPT ![n] = 0]
    /\ UNCHANGED <<now, phase, started, until, round, number, token, before,
                   requests, answers>>

(* ... until a TTL has passed, and it has learnt the fences of so many       *)
(* others that each quorum has one of them.                                  *)
Activate(n) ==
    /\ ~votes[n]
    /\ now >= forgot[n] + TTL
    /\ \E W \in Witnesses(n) :
         /\ \A w \in W : votes[w]
         /\ fence' = [fence EXCEPT ![n] = Max({fence[w] : w \in W})]
    /\ votes' = [votes EXCEPT ![n] = TRUE]
    /\ UNCHANGED <<now, key, forgot, crashes, phase, started, until, round, number,
                   token, before, requests, answers>>

Next ==
    \/ Tick
    \/ Run
    \/ \E l \in Leases :
         Start(l) \/ Hold(l) \/ Raise(l) \/ Extend(l) \/ Renew(l) \/ End(l)
    \/ \E n \in Nodes : Crash(n) \/ Activate(n)

Spec == Init /\ [][Next]_vars

Holds(l) == phase[l] = "held" /\ now < until[l]

(* P1 *)
MutualExclusion ==
    \A l, m \in Leases : Holds(l) /\ Holds(m) => l = m

(* P5: above every token that was completed before the lease was requested. *)
TokensGrow ==
    \A l \in Leases : phase[l] = "held" => token[l] > before[l]
(* Names are alike: TLC visits one of each group of states. *)
Symmetry == Permutations(Nodes) \cup Permutations(Leases)
=============================================================================
