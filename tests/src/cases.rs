//! All cases of the conformance suite, by area.
//!
//! The list stands here once, in [`for_each_case`](crate::for_each_case); the table [`ALL`] and the
//! tests are made from it. A case that is written and not listed is an unused function, which the
//! compiler reports.

mod apply;
mod apply_builtins;
mod auth;
mod bodies;
mod builtins;
mod crds;
mod deletion;
mod discovery;
mod dry_run;
mod errors;
mod gc;
mod lists;
mod namespaces;
mod objects;
mod openapi;
mod partial;
mod patches;
mod protobuf;
mod protobuf_answers;
mod rbac;
mod selectors;
mod status;
mod strategic;
mod strategic_refusals;
mod tables;
mod validation;
mod watches;

use std::fmt;

use futures::future::LocalBoxFuture;

use crate::Script;

/// One case: a script, its name, and the area whose file holds its recording.
#[derive(Clone, Copy)]
pub struct Case {
    /// The area: a module here, and a file in `tests/recordings`.
    pub area: &'static str,
    /// The name: unique over all areas, since the namespace of the case is named after it.
    pub name: &'static str,
    pub(crate) body: for<'a> fn(&'a mut Script) -> LocalBoxFuture<'a, ()>,
}

/// How many cases there have to be.
pub(crate) const AT_LEAST: usize = 110;

/// Hands the areas and their cases to the macro `$then`.
#[macro_export]
macro_rules! for_each_case {
    ($then:ident) => {
        $then! {
            errors: [
                missing_object_is_named_with_its_resource,
                missing_object_cannot_be_written,
                put_of_a_missing_object_creates_only_some_kinds,
                unknown_group_is_a_plain_404,
                unknown_version_of_a_known_group,
                unknown_resource_of_a_known_group,
                unknown_path,
                unknown_subresource,
                namespaced_resource_at_cluster_level_and_back,
                duplicate_already_exists,
                stale_version_is_a_conflict_for_put,
                stale_version_is_a_conflict_for_patches_that_carry_it,
                second_of_two_writers_is_in_conflict,
                version_that_is_no_number,
                put_without_a_version_depends_on_the_kind,
                put_with_another_name,
                object_of_another_namespace,
                put_with_another_uid,
                post_to_a_name,
                collection_can_be_neither_put_nor_patched,
                review_can_only_be_created,
                unknown_method,
                content_type_that_is_not_understood,
                patch_type_that_is_not_understood,
                content_type_may_carry_a_charset,
                body_without_a_content_type_is_json,
                representation_that_is_not_acceptable,
                representation_is_the_first_that_is_understood,
                patch_is_refused_before_the_object_is_looked_up,
                overloaded_server_answers_in_plain_text,
            ]
            bodies: [
                body_that_is_not_json,
                body_that_is_empty,
                body_that_is_json_but_no_object,
                body_of_another_kind,
                body_of_another_version,
                kind_is_filled_in_for_built_ins_only,
                metadata_of_the_wrong_shape,
                body_that_is_too_large,
                unknown_field_is_dropped_with_a_warning,
                unknown_field_is_refused_if_strict,
                unknown_field_is_dropped_in_silence_if_ignored,
                unknown_field_inside_lists_is_named_with_its_index,
                field_validation_of_an_unknown_sort,
                duplicate_field_warns_and_the_last_wins,
                field_manager_that_is_too_long,
                unknown_query_parameter_is_ignored,
            ]
            validation: [
                schema_bounds_and_choices,
                schema_errors_are_reported_together,
                schema_required_fields,
                schema_types,
                schema_texts_and_lists,
                schema_nulls,
                schema_holds_for_updates_and_status,
                name_that_is_not_allowed,
                name_that_is_missing,
                labels_and_annotations_that_are_not_allowed,
                finalizer_that_is_not_allowed,
                owner_references_that_are_not_allowed,
                version_on_creation,
                immutable_metadata_is_kept_or_defended,
            ]
            auth: [
                unknown_token_is_unauthorized,
                nobody_may_touch_objects,
                nobody_sees_version_and_health,
                nobody_sees_discovery_or_other_paths,
                user_without_rights_sees_discovery,
                user_without_rights_is_told_the_verb,
                user_without_rights_is_told_group_and_subresource,
                rights_are_checked_before_existence,
                review_of_the_admin_is_allowed,
            ]
            objects: [
                creation_fills_in_what_the_server_decides,
                creation_ignores_what_only_the_server_decides,
                creation_fills_in_the_namespace,
                generated_name_has_five_characters,
                generated_name_yields_to_a_given_one,
                generated_name_from_a_bad_or_long_prefix,
                defaults_of_the_schema_are_stored,
                open_parts_of_the_schema_keep_everything,
                numbers_are_kept_as_they_are,
                put_replaces_all_but_the_servers_fields,
                put_that_changes_nothing_keeps_the_version,
                patch_that_changes_nothing_keeps_the_version,
                generation_counts_changes_of_the_spec,
                generation_counts_everything_without_a_status_subresource,
                one_object_in_two_versions,
                deleted_and_created_again_is_another_object,
            ]
            status: [
                main_endpoint_drops_status,
                status_endpoint_drops_the_rest,
                status_can_be_put,
                status_that_does_not_change_keeps_the_version,
                status_cannot_be_created_or_deleted,
                status_of_a_deployment,
                scale_of_a_custom_resource,
                scale_can_be_put_with_or_without_a_version,
                scale_of_a_deployment,
            ]
            builtins: [
                lease_is_taken_and_renewed,
                deployment_gets_its_defaults,
                deployment_generation_counts_its_spec,
                pod_is_pending_until_somebody_runs_it,
                pod_is_bound_to_a_node,
                bound_pod_has_the_place_of_its_node,
                event_is_one_object_in_two_groups,
                some_kinds_answer_a_deletion_with_the_object,
                pod_on_a_node_is_given_time_to_end,
                role_names_may_hold_colons,
            ]
            deletion: [
                deletion_answers_with_the_uid,
                finalizer_turns_deletion_into_a_mark,
                finalizer_holds_a_built_in_as_well,
                last_of_two_finalizers_lets_go,
                terminating_object_takes_no_new_finalizer,
                terminating_object_can_still_be_changed,
                terminating_object_stays_terminating,
                terminating_name_is_taken,
                precondition_on_the_uid,
                precondition_on_the_version,
                delete_options_that_are_not_allowed,
                delete_options_in_body_or_query,
                collection_is_deleted_by_label,
                collection_is_deleted_whole_or_not_at_all,
                collection_with_finalizers_is_marked,
                collection_is_not_deleted_by_a_bad_selector,
            ]
            dry_run: [
                dry_creation_has_a_uid_and_no_version,
                dry_creation_fails_as_a_real_one,
                dry_update_keeps_what_is_stored,
                dry_deletion_keeps_the_object,
                dry_run_of_an_unknown_sort,
            ]
            patches: [
                merge_patch_sets_removes_and_replaces,
                merge_patch_of_a_built_in,
                merge_patch_that_is_broken,
                merge_patch_cannot_change_the_identity,
                merge_patch_with_the_right_version_succeeds,
                merge_patch_with_an_unknown_field,
                json_patch_knows_all_operations,
                json_patch_test_that_fails,
                json_patch_of_a_path_that_does_not_exist,
                json_patch_that_is_broken,
                json_patch_adds_a_finalizer_as_controllers_do,
                json_patch_of_the_status,
            ]
            openapi: [
                openapi_index_names_documents_with_their_hashes,
                openapi_document_with_another_hash_is_elsewhere,
                openapi_document_that_does_not_exist,
                openapi_schemas_of_a_pod,
                openapi_schemas_of_a_deployment,
                openapi_schemas_of_other_groups,
                openapi_paths_of_a_namespaced_kind,
                openapi_paths_of_the_core_group,
                openapi_paths_of_reviews,
                openapi_parameters_have_their_words,
                openapi_of_a_custom_resource,
                openapi_of_an_odd_schema,
                openapi_follows_the_definition,
                deprecated_versions_warn,
            ]
            strategic: [
                strategic_patch_merges_containers_by_name,
                strategic_patch_of_set_image_keeps_the_order,
                strategic_patch_reorders_by_directive,
                strategic_patch_puts_new_items_in_the_order_of_the_patch,
                strategic_patch_deletes_items,
                strategic_patch_renames_an_item,
                strategic_patch_of_data_without_a_type,
                strategic_patch_replaces_a_list,
                strategic_patch_replaces_lists_that_do_not_merge,
                strategic_patch_replaces_or_empties_a_map,
                strategic_patch_removes_what_is_null,
                strategic_patch_takes_new_items_with_their_nulls,
                strategic_patch_leaves_directives_in_new_items,
                strategic_patch_merges_ports_by_number,
                strategic_patch_retains_keys_of_a_strategy,
                strategic_patch_retains_keys_of_volumes,
                strategic_patch_merges_finalizers_by_value,
                strategic_patch_merges_owners_by_uid,
                strategic_patch_of_labels_and_annotations,
                strategic_patch_of_data,
                strategic_patch_of_conditions,
                strategic_patch_of_status_ignores_the_spec,
                strategic_patch_of_the_scale,
                strategic_patch_counts_an_event,
                strategic_patch_of_a_series_of_events,
                strategic_patch_of_service_ports,
                strategic_patch_replaces_the_selector_of_a_budget,
                strategic_patch_that_changes_nothing_keeps_the_version,
                strategic_patch_as_a_dry_run,
                strategic_patch_with_a_version,
                strategic_patch_of_custom_resources_is_not_supported,
            ]
            strategic_refusals: [
                strategic_patch_of_what_is_missing,
                strategic_patch_that_is_broken,
                strategic_patch_without_the_merge_key,
                strategic_patch_with_an_unknown_directive,
                strategic_patch_with_items_that_are_out_of_order,
                strategic_patch_with_an_order_of_what_is_no_list,
                strategic_patch_with_wrong_keys_to_retain,
                strategic_patch_with_values_to_delete_from_the_wrong_list,
                strategic_patch_with_lists_of_several_types,
                strategic_patch_with_values_of_a_wrong_type,
                strategic_patch_with_unknown_fields,
                strategic_patch_is_validated,
                strategic_patch_cannot_change_the_identity,
                strategic_patch_of_what_a_pod_may_not_change,
            ]
            apply: [
                apply_creates_and_changes_and_removes,
                apply_that_changes_nothing_keeps_the_version,
                apply_conflicts_with_another_manager,
                apply_conflicts_with_several_managers,
                apply_conflicts_with_what_was_written_otherwise,
                json_patch_takes_part_in_management,
                apply_to_an_object_without_managers,
                managers_survive_who_does_not_know_them,
                apply_that_is_not_allowed,
                apply_body_that_is_broken,
                apply_of_yaml,
                apply_with_a_version_or_a_uid,
                dry_apply_stores_nothing,
                apply_of_a_status,
                apply_of_custom_lists_and_maps,
                apply_keeps_the_order_of_lists,
                apply_of_nulls_and_nothing,
                apply_of_unknown_fields_and_wrong_types,
                apply_is_validated_and_defaulted,
                apply_in_two_versions,
                apply_without_a_schema,
                managers_of_a_custom_resource_that_is_created_and_patched,
                apply_where_it_cannot_be,
                watch_sees_what_is_applied,
                kubectl_is_not_in_conflict_with_itself,
            ]
            apply_builtins: [
                apply_of_metadata,
                apply_of_owner_references,
                apply_of_a_deployment,
                create_and_update_of_a_deployment_are_managed,
                apply_of_a_built_in_status,
                apply_of_a_service,
                apply_of_a_pod,
                apply_of_other_built_ins,
                apply_of_a_definition,
            ]
            lists: [
                list_items_of_built_ins_omit_their_kind,
                list_of_nothing,
                list_is_in_the_order_of_names,
                list_over_all_namespaces,
                list_in_pages,
                list_of_a_custom_resource_in_pages,
                list_in_one_page_that_is_just_large_enough,
                later_pages_show_the_world_as_of_the_first,
                page_with_a_selector_does_not_count_the_rest,
                pages_over_all_namespaces,
                continue_token_that_is_broken,
                continue_token_with_a_version_beside_it,
                continue_token_that_is_too_old,
                version_zero_ignores_the_limit,
                exact_version_shows_the_world_as_it_was,
                exact_version_in_pages,
                not_older_than_shows_the_world_as_it_is,
                exact_version_that_is_too_old,
                version_match_that_is_not_allowed,
                version_of_the_future_times_out,
                version_of_a_list_that_is_no_number,
                version_zero_reads_one_object,
                initial_events_are_not_for_lists,
                odd_limits,
            ]
            selectors: [
                labels_by_equality,
                labels_by_sets_and_presence,
                labels_by_size,
                label_selector_that_is_broken,
                fields_of_metadata,
                fields_of_a_custom_resource,
                fields_of_pods,
                fields_of_events,
                field_selector_that_is_not_supported,
            ]
            watches: [
                watch_shows_what_happens_to_a_built_in,
                watch_shows_what_happens_to_a_custom_resource,
                watch_catches_up_from_a_version,
                watch_without_a_version_begins_with_what_is_there,
                watch_from_version_zero_begins_with_what_is_there,
                writes_without_effect_emit_nothing,
                label_selector_turns_changes_into_arrivals_and_departures,
                field_selector_turns_changes_into_arrivals_and_departures,
                watch_of_a_single_object,
                watch_on_the_path_of_an_object_is_a_plain_read,
                watch_over_all_namespaces,
                watch_of_a_place_that_does_not_exist,
                watch_sees_a_deletion_with_finalizers_in_two_steps,
                watch_sees_every_object_of_a_deleted_collection,
                watch_sees_a_recreated_object_as_another,
                watch_in_another_version,
                watch_from_a_version_that_is_too_old,
                watch_from_a_version_of_the_future,
                watch_from_a_version_that_is_no_number,
                watch_with_a_bad_selector,
                watch_ends_cleanly_after_its_time,
                watch_sends_a_bookmark_before_its_time_ends,
                watch_list_marks_the_end_of_the_initial_events,
                watch_list_with_a_selector_or_a_version,
                watch_list_without_bookmarks_has_no_end_mark,
                watch_without_initial_events_on_request,
                watch_options_that_are_not_allowed,
                watch_of_the_metadata_only,
            ]
            partial: [
                metadata_of_one_object,
                metadata_of_a_list,
                metadata_of_one_object_is_not_a_list,
                metadata_in_answer_to_a_write,
                metadata_is_not_sent_if_something_else_is_liked_more,
            ]
            tables: [
                table_of_one_object_and_of_a_list,
                table_as_kubectl_asks_for_it,
                table_with_as_much_of_the_object_as_is_asked_for,
                table_with_an_unknown_part_of_the_object,
                table_is_written_before_its_options_are_read,
                table_in_pages,
                table_of_a_custom_resource_in_pages,
                table_of_what_selectors_choose,
                table_of_nothing,
                table_in_an_old_version,
                table_or_something_else,
                table_that_nobody_has,
                table_is_not_made_of_errors,
                table_of_a_scale,
                table_of_a_status,
                table_in_answer_to_a_write,
                table_watch_names_its_columns_once,
                table_watch_begins_with_what_is_there,
                table_watch_of_a_custom_resource,
                table_watch_with_a_selector,
                table_watch_marks_the_end_of_the_initial_events,
                table_watch_sends_bookmarks,
                table_watch_that_is_too_old,
                table_of_a_cluster_scoped_resource,
                pods_by_phase,
                pods_whose_containers_wait,
                pods_whose_containers_run,
                pods_whose_containers_ended,
                pods_with_containers_in_different_states,
                pods_that_initialize,
                pods_with_sidecars,
                pods_that_were_restarted,
                pods_that_end,
                pods_that_may_not_be_scheduled,
                pods_with_wide_cells,
                columns_of_the_core_group,
                columns_of_workloads,
                columns_of_the_other_groups,
                deployments_and_replica_sets_in_a_table,
                stateful_and_daemon_sets_in_a_table,
                controllers_revisions_and_templates_in_a_table,
                jobs_in_a_table,
                cron_jobs_in_a_table,
                services_in_a_table,
                services_with_an_address_in_a_table,
                endpoints_and_slices_in_a_table,
                ingresses_and_network_policies_in_a_table,
                nodes_in_a_table,
                namespaces_and_leases_in_a_table,
                classes_in_a_table,
                claims_and_volumes_in_a_table,
                configuration_in_a_table,
                quotas_and_limits_in_a_table,
                roles_and_bindings_in_a_table,
                events_of_both_groups_in_a_table,
                disruption_budgets_in_a_table,
                autoscalers_in_a_table,
                definitions_in_a_table,
                custom_columns_are_described,
                custom_cells_of_all_types,
                custom_cells_by_all_sorts_of_paths,
                custom_columns_end_at_a_path_that_is_broken,
                custom_columns_of_each_version,
                custom_columns_that_change,
                custom_columns_that_are_not_allowed,
            ]
            protobuf: [
                object_is_created_from_protobuf,
                object_in_protobuf_has_a_generated_name,
                secret_in_protobuf_holds_bytes,
                embedded_structs_and_types_of_their_own,
                zero_counts_where_go_has_a_pointer,
                values_in_protobuf_are_checked,
                object_is_replaced_by_protobuf,
                writing_back_in_protobuf_changes_nothing,
                status_is_written_in_protobuf,
                lease_is_renewed_in_protobuf,
                event_in_protobuf,
                scale_in_protobuf,
                delete_options_in_protobuf,
                delete_options_of_a_group,
                collection_is_deleted_with_options_in_protobuf,
                pod_is_bound_and_evicted_by_protobuf,
                reviews_in_protobuf,
                definition_in_protobuf,
                kinds_of_other_groups_in_protobuf,
                arbitrary_values_in_protobuf,
                dry_run_and_field_manager_of_a_protobuf_body,
                managed_fields_in_protobuf,
                envelope_may_leave_out_the_kind,
                envelope_of_another_kind,
                body_that_is_no_protobuf,
                message_that_is_broken,
                fields_that_nobody_knows_are_skipped,
                fields_that_come_twice_are_merged,
                delete_options_of_custom_resources,
                patches_are_not_sent_in_protobuf,
            ]
            protobuf_answers: [
                object_is_read_in_protobuf,
                workloads_are_read_in_protobuf,
                lists_are_read_in_protobuf,
                refusals_are_read_in_protobuf,
                deletions_are_answered_in_protobuf,
                watch_in_protobuf,
                watch_list_in_protobuf,
                watch_in_protobuf_that_is_too_old,
                metadata_alone_in_protobuf,
                custom_resources_are_not_read_in_protobuf,
                tables_are_not_read_in_protobuf,
                discovery_in_protobuf,
            ]
            crds: [
                definition_is_answered_without_conditions,
                definition_is_established_step_by_step,
                definition_serves_nothing_before_it_exists,
                definition_shows_up_in_discovery,
                definition_with_the_wrong_name,
                definition_with_missing_parts,
                definition_with_storage_versions_that_are_not_one,
                definition_with_a_schema_that_is_not_structural,
                definition_whose_kind_is_taken,
                version_that_is_not_served,
                versions_are_listed_by_priority,
                deleted_definition_takes_its_objects_with_it,
                deleted_definition_can_come_back_empty,
                definition_that_changes_its_schema,
                definition_keeps_its_scope_and_kind,
            ]
            namespaces: [
                namespace_comes_with_label_finalizer_and_phase,
                namespace_keeps_its_label,
                missing_namespace_refuses_creation_only,
                terminating_namespace_refuses_creation,
                terminating_namespace_can_be_deleted_again,
                deleted_namespace_answers_with_itself,
                deleted_namespace_takes_its_content_with_it,
                deleted_namespace_waits_for_finalizers,
                finalize_ends_a_namespace,
                default_namespace_may_not_be_deleted,
                namespaces_are_not_deleted_as_a_collection,
                namespaces_that_are_always_there,
            ]
            discovery: [
                core_versions,
                groups,
                documents_of_single_groups,
                core_resources,
                resources_of_apps,
                resources_of_the_other_groups,
                resources_of_a_custom_group,
                aggregated_core,
                aggregated_groups,
                aggregated_form_is_one_of_several,
                version_and_health,
            ]
            rbac: [
                role_allows_what_it_names,
                account_without_a_role_is_refused_every_verb,
                refused_request_changes_and_reveals_nothing,
                names_restrict_a_rule,
                list_by_name_is_a_request_for_that_name,
                parts_are_resources_of_their_own,
                stars_match_everything,
                cluster_role_counts_where_it_is_bound,
                subjects_are_users_groups_and_accounts,
                binding_to_a_role_that_is_not_there,
                rights_follow_roles_and_bindings,
                paths_are_allowed_by_cluster_roles,
                put_that_creates_needs_the_right_to_create,
                apply_that_creates_needs_the_right_to_create,
                namespace_is_in_itself,
                anonymous_sees_what_is_public,
                default_roles_are_there,
                view_edit_and_admin_do_what_they_say,
                aggregated_role_is_filled,
                aggregated_role_may_be_a_part,
                role_grants_only_what_its_writer_holds,
                role_cannot_grow_beyond_its_writer,
                put_that_creates_a_role_is_checked_as_well,
                escalate_lifts_the_check_of_roles,
                binding_grants_only_what_its_writer_holds,
                bind_lifts_the_check_of_bindings,
                cluster_binding_needs_rights_everywhere,
                owners_and_finalizers_may_be_written_by_anyone,
                aggregation_needs_all_rights,
                rules_must_say_something,
                aggregation_must_select_something,
                bindings_must_name_a_role_and_somebody,
                binding_keeps_its_role,
                roles_are_named_as_paths_allow,
                token_says_whose_it_is,
                token_requests_that_are_refused,
                token_request_is_a_right_of_its_own,
                token_is_bound_to_a_pod_or_secret,
                review_tells_whom_a_token_stands_for,
                token_for_others_is_not_for_this_server,
                forged_token_is_refused,
                token_ends_with_its_account,
                token_ends_with_what_it_is_bound_to,
                everyone_known_may_ask_who_they_are,
                review_names_the_binding_that_allows,
                reviews_that_are_refused,
                local_review_is_about_its_namespace,
                everyone_may_ask_about_themselves,
                rules_of_a_user_are_listed,
                admin_acts_for_anybody,
                groups_alone_are_nobody,
                acting_for_others_is_a_right,
                each_part_of_another_is_asked_for,
                constrained_acting_is_limited_to_a_verb,
                masters_are_not_acted_for_in_a_constrained_way,
                accounts_and_nodes_are_acted_for,
            ]
            gc: [
                child_goes_after_its_owner_in_the_background,
                child_goes_after_its_owner_by_default,
                grandchild_goes_as_well,
                owner_stays_when_its_child_is_deleted,
                owner_waits_in_the_foreground_for_a_blocking_child,
                owner_does_not_wait_for_a_child_that_does_not_block,
                owner_without_children_goes_in_the_foreground,
                orphan_stays_without_its_owner,
                orphan_by_the_older_option,
                orphan_finalizer_set_by_the_user_orphans,
                child_of_two_owners_loses_one_and_stays,
                child_of_an_owner_that_never_was,
                child_of_an_owner_of_the_same_name_and_another_uid,
                child_of_an_owner_in_another_namespace,
                collection_is_deleted_with_a_policy,
            ]
        }
    };
}

macro_rules! table {
    ($($area:ident: [$($name:ident,)*])*) => {
        /// All cases, in the order of the list.
        pub const ALL: &[Case] = &[$($(Case {
            area: stringify!($area),
            name: stringify!($name),
            body: |script| Box::pin($area::$name(script)),
        },)*)*];
    };
}

for_each_case!(table);

/// The case of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> &'static Case {
    ALL.iter().find(|case| case.name == name).expect("a listed case must be in the table")
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.area, self.name)
    }
}
