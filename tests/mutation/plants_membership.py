# ruff: noqa: E501 - names of tests and lines of code are as long as they are
"""Bugs in the membership of a broker in its cluster, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.plant import Plant

MEMBERSHIP_PLANTS: list[Plant] = [
    Plant(
        "a controller whose session expired stops acting at once",
        "src/odradek/broker/membership.py",
        "            controller.resign()\n",
        "",
        ("unit/broker/test_membership.py::test_expired_controller_resigns_and_is_elected_again",),
    ),
    Plant(
        "configs are read again under a new session",
        "src/odradek/broker/membership.py",
        "                    await callback(self.store)\n",
        "                    pass\n",
        ("unit/broker/test_membership.py::test_configs_changed_while_the_session_was_gone_are_applied",),
    ),
    Plant(
        "a broker registers again under a new session",
        "src/odradek/broker/membership.py",
        "            if not self._is_joined:\n",
        "            if False:\n",
        ("unit/broker/test_membership.py::test_expired_broker_registers_again_under_a_new_epoch",),
    ),
    Plant(
        "a stopped broker does not join again",
        "src/odradek/broker/membership.py",
        "        for task in tasks:\n            task.cancel()\n        await asyncio.gather(*tasks, return_exceptions=True)\n        controller",
        "        controller",
        ("unit/broker/test_membership.py::test_stop_ends_attempts_to_rejoin",),
    ),
    Plant(
        "a failed controller is replaced by one that reads all state",
        "src/odradek/broker/membership.py",
        "            self._spawn(self._replace_controller(controller, store))\n",
        "            pass\n",
        ("unit/broker/test_membership.py::test_failed_controller_is_replaced_by_one_that_reads_all_state",),
    ),
    Plant(
        "a controller whose node was overwritten resigns",
        "src/odradek/broker/membership.py",
        "            if await is_elected(store, self._broker_id):\n                return\n",
        "            return\n",
        (
            "unit/broker/inter_broker/test_own_controller.py::test_overwritten_controller_node_forces_an_election",
        ),
    ),
    Plant(
        "every broker watches the controller",
        "src/odradek/broker/membership.py",
        "        await store.watch_exists(znode_paths.CONTROLLER, self._on_controller_changed)\n",
        "",
        (
            "unit/broker/inter_broker/test_own_controller.py::test_killed_controller_is_replaced",
            "unit/broker/inter_broker/test_own_controller.py::test_deleted_controller_node_forces_an_election",
        ),
    ),
    Plant(
        "a controller that failed leaves the election to others for a while",
        "src/odradek/broker/membership.py",
        "        if self._is_replacing:\n            return\n",
        "",
        (
            "unit/broker/test_membership.py::test_controller_that_fails_while_it_loads_is_replaced_after_a_while",
        ),
    ),
    Plant(
        "an overwritten controller node is deleted before the election",
        "src/odradek/store/controller_election.py",
        "        if _is_controller(data, broker_id):\n",
        "        if True:\n",
        (
            "unit/store/test_controller_election.py::test_overwritten_controller_node_is_replaced_under_a_new_epoch",
        ),
    ),
    Plant(
        "no handler survives that its controller was replaced",
        "src/odradek/controller/controller.py",
        "                except FATAL:\n                    steps.close()\n                    raise\n",
        "",
        (
            "unit/controller/test_controller_events.py::test_handler_cannot_survive_that_its_controller_is_fenced",
        ),
    ),
    Plant(
        "a change during a read is read again",
        "src/odradek/controller/event_queue.py",
        "        self._keys.discard(queued.key)\n",
        "",
        ("unit/controller/test_event_queue.py::test_read_is_queued_once_until_it_is_taken",),
    ),
    Plant(
        "a resigned controller opens no channels",
        "src/odradek/controller/channels.py",
        "        if self._is_closed:\n            brokers = {}\n",
        "",
        ("unit/controller/test_channels.py::test_closed_channels_open_no_queue",),
    ),
    Plant(
        "the states of a deleted topic are not created",
        "src/odradek/store/partition_states.py",
        "                await fenced_multi(store, fence, [CreateOp(root)])\n",
        "                await store.ensure_path(root)\n",
        (
            "unit/controller/test_store_actions.py::test_state_of_a_deleted_topic_is_not_created",
            "unit/controller/test_store_actions.py::test_former_controller_writes_nothing",
        ),
    ),
    Plant(
        "a topic that was deleted and recreated stays watched",
        "src/odradek/controller/watches.py",
        "            if node is None:\n                self._watched_topics.discard(topic)\n                continue\n",
        "            if node is None:\n                continue\n",
        ("unit/controller/test_watches.py::test_topic_recreated_after_its_watch_was_read_is_new",),
    ),
    Plant(
        "requests of the controller carry the broker epoch",
        "src/odradek/broker/inter_broker/controller_channel.py",
        "        epoch = self._broker().broker_epoch\n",
        "        epoch = -1\n",
        (
            "unit/broker/inter_broker/test_controller_channel.py::test_requests_carry_controller_and_broker_epoch",
        ),
    ),
    Plant(
        "two brokers do not advertise the same endpoint",
        "src/odradek/broker/membership.py",
        "            check_endpoints(registration",
        "            (lambda *_: None)(registration",
        ("unit/broker/test_membership.py::test_endpoint_of_another_broker_is_refused",),
    ),
    Plant(
        "two brokers do not share an id",
        "src/odradek/store/broker_registration.py",
        "        if existing.ephemeral_owner == store.session_id:\n",
        "        if existing.ephemeral_owner:\n",
        ("unit/broker/test_membership.py::test_second_broker_with_the_same_id_is_refused_in_one_line",),
    ),
    Plant(
        "the node of the own expired session is replaced",
        "src/odradek/store/broker_registration.py",
        "        if existing.ephemeral_owner not in previous_session_ids:\n",
        "        if True:\n",
        ("unit/store/test_broker_registration.py::test_node_of_the_own_expired_session_is_replaced",),
    ),
    Plant(
        "a registration whose response was lost is found",
        "src/odradek/store/broker_registration.py",
        "        with suppress(NodeExists, Unavailable):\n",
        "        with suppress(NodeExists):\n",
        ("unit/store/test_broker_registration.py::test_registration_without_a_response_is_found",),
    ),
    Plant(
        "the features epoch is the version of the node",
        "src/odradek/broker/inter_broker/finalized_features.py",
        "            self.epoch, self.versions = stored.epoch, stored",
        "            self.epoch, self.versions = 0, stored",
        (
            "unit/broker/test_membership.py::test_embedded_store_enables_features_and_their_epoch_is_the_node_version",
        ),
    ),
    Plant(
        "protocols before 2.8 are refused",
        "src/odradek/broker/start_checks.py",
        '        problems.append(f"{settings.INTER_BROKER',
        '        print(f"{settings.INTER_BROKER',
        ("unit/broker/test_membership.py::test_old_inter_broker_protocol_is_refused",),
    ),
    Plant(
        "only the controller creates topics",
        "src/odradek/broker/handlers/create_topics.py",
        "    context.broker.membership.require_controller()\n",
        "",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_broker_that_is_not_the_controller_says_so",
        ),
    ),
    Plant(
        "only the controller deletes topics",
        "src/odradek/broker/handlers/delete_topics.py",
        "    context.broker.membership.require_controller()\n",
        "",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_broker_that_is_not_the_controller_says_so",
        ),
    ),
    Plant(
        "only the controller adds partitions",
        "src/odradek/broker/handlers/create_partitions.py",
        "    context.broker.membership.require_controller()\n",
        "",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_broker_that_is_not_the_controller_says_so",
        ),
    ),
    Plant(
        "a missing topic is requested once at a time",
        "src/odradek/broker/topics/controller_topic_creation.py",
        "if topic.name not in self._in_flight and",
        "if",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_topic_is_requested_once_while_it_is_created",
        ),
    ),
    Plant(
        "a failed automatic creation is requested again",
        "src/odradek/broker/topics/controller_topic_creation.py",
        "            self._in_flight.discard(topic.name)\n",
        "            pass\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_topic_is_requested_once_while_it_is_created",
        ),
    ),
    Plant(
        "producer ids come from the controller since protocol 3.0",
        "src/odradek/broker/components.py",
        "        if not membership.metadata_version.is_allocate_producer_ids_supported:\n",
        "        if True:\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_producer_ids_come_in_blocks_from_the_controller",
        ),
    ),
    Plant(
        "producer ids come from the store before protocol 3.0",
        "src/odradek/broker/components.py",
        "        if not membership.metadata_version.is_allocate_producer_ids_supported:\n",
        "        if False:\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_old_protocol_allocates_blocks_in_the_store",
        ),
    ),
    Plant(
        "a block of producer ids is used to its end, not beyond",
        "src/odradek/broker/inter_broker/producer_id_blocks.py",
        "first + count - 1)",
        "first + count)",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_producer_ids_come_in_blocks_from_the_controller",
        ),
    ),
    Plant(
        "a refused block of producer ids is not used",
        "src/odradek/broker/inter_broker/producer_id_blocks.py",
        "        if response.error_code:\n",
        "        if False:\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_refused_block_is_retriable_and_asked_for_again",
        ),
    ),
    Plant(
        "leaderships move before requests are refused",
        "src/odradek/broker/broker.py",
        "        await self._shut_down_controlled()\n        if self._cleaner is not None:\n            await self._cleaner.stop()\n        await self._task_scheduler.stop()\n        await self._drain_requests()\n",
        "        if self._cleaner is not None:\n            await self._cleaner.stop()\n        await self._task_scheduler.stop()\n        await self._drain_requests()\n        await self._shut_down_controlled()\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_controlled_shutdown_comes_before_requests_are_refused",
        ),
    ),
    Plant(
        "a controlled shutdown is retried",
        "src/odradek/broker/inter_broker/controlled_shutdown.py",
        "range(limits.attempts_max)",
        "range(1)",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_controlled_shutdown_is_retried_and_then_given_up",
        ),
    ),
    Plant(
        "a controlled shutdown waits for all leaderships",
        "src/odradek/broker/inter_broker/controlled_shutdown.py",
        " and not response.remaining_partitions:",
        ":",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_controlled_shutdown_is_retried_and_then_given_up",
        ),
    ),
    Plant(
        "a controlled shutdown goes to the controller in the store",
        "src/odradek/broker/inter_broker/controlled_shutdown.py",
        "                response = await requests.send(\n                    controller.broker_id,\n",
        "                response = await requests.send_to_controller(\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_controlled_shutdown_goes_to_the_controller_in_the_store",
        ),
    ),
    Plant(
        "a failed log directory is notified in the store",
        "src/odradek/broker/broker.py",
        "            self._log_dir_notifier.notify()\n",
        "            pass\n",
        (
            "unit/broker/inter_broker/test_controller_elsewhere.py::test_failed_log_directory_is_notified_in_the_store",
        ),
    ),
    Plant(
        "a broker ignores the configs of another",
        "src/odradek/broker/dynamic_config.py",
        "        elif kind == BROKERS and name == str(self._broker_id):\n",
        "        elif kind == BROKERS:\n",
        ("unit/broker/inter_broker/test_controller_elsewhere.py::test_configs_of_any_writer_are_applied",),
    ),
    Plant(
        "requests to an old broker epoch are dropped",
        "src/odradek/controller/channels.py",
        "if broker is None or broker.broker_epoch != queue.broker.broker_epoch:",
        "if broker is None:",
        ("unit/controller/test_channels.py::test_retries_end_with_the_broker_epoch",),
    ),
    Plant(
        "requests of the controller are retried in order",
        "src/odradek/controller/channels.py",
        "            except ClientError as error:\n",
        "            except ZeroDivisionError as error:\n",
        ("unit/controller/test_channels.py::test_requests_to_a_broker_keep_their_order",),
    ),
    Plant(
        "a request that fails for good is reported",
        "src/odradek/controller/channels.py",
        "                self._on_failed(error)\n                return\n",
        "                continue\n",
        ("unit/controller/test_channels.py::test_error_that_no_retry_cures_is_reported_once",),
    ),
    Plant(
        "a resigned controller sends nothing",
        "src/odradek/controller/channels.py",
        "        queue.task.cancel()\n",
        "",
        ("unit/controller/test_channels.py::test_nothing_is_sent_after_close",),
    ),
    Plant(
        "a failed controller does nothing more",
        "src/odradek/controller/controller.py",
        "            self._failure = error\n            self.resign()\n",
        "            self._failure = error\n",
        ("unit/controller/test_controller.py::test_request_that_fails_for_good_ends_the_controller",),
    ),
]
